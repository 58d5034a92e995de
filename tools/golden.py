"""`make golden`: generates the golden files for the tests of converters and transforms. Needs Java 17 with its
compiler.

The cases (`transform_cases.py`, `converter_cases.py` in `tests/connectors/golden`) run through the classes of the real
Kafka Connect, those of `avro_cases.py` through the AvroConverter of Apicurio, with its registry. All jars are
downloaded from Maven Central once (`ringfence.local.jars`). The results are stored beside the cases in
`transforms.json.gz`, `converters.json.gz` and `avro.json.gz`: the tests compare with these files and need no Java. Run
it again when the cases change.
"""

import base64
import gzip
import json
import subprocess
import tempfile
from pathlib import Path

from benchmarks.connect import JARS
from ringfence.local.jars import Coordinate, resolve
from ringfence.local.java import find_java
from tests.connectors.golden import avro_cases, converter_cases, transform_cases
from tests.connectors.golden.codec import Json
from tests.connectors.golden.files import FOLDER
from tests.support.apicurio import Apicurio

JAVA = Path(__file__).resolve().with_name("Golden.java")
# Its AvroConverter has the code of Confluent's, which is not on Maven Central. The last version with complete metadata.
APICURIO = (Coordinate("io.apicurio", "apicurio-registry-utils-converter", "2.6.13.Final"),)


def main() -> None:
    connect = resolve("connect", JARS)
    with tempfile.TemporaryDirectory() as scratch:
        compile_to(Path(scratch), connect)
        for name, module in (("transforms", transform_cases), ("converters", converter_cases)):
            keep(name, answered(Path(scratch), connect, list(module.cases())))
        keep("avro", registered(Path(scratch), resolve("apicurio-converter", APICURIO)), sort_keys=False)


def compile_to(classes: Path, jars: Path) -> None:
    java = find_java()
    compiler = str(java.with_name("javac")) if java.with_name("javac").exists() else "javac"
    subprocess.run([compiler, "-cp", f"{jars}/*", "-d", str(classes), str(JAVA)], check=True)


def answered(classes: Path, jars: Path, cases: list[Json]) -> list[Json]:
    """Return the cases with the results of the classes in `jars`."""
    case_file, output = classes / "cases.json", classes / "made.json"
    case_file.write_text(json.dumps(cases))
    command = [str(find_java()), "-Duser.timezone=UTC", "-Duser.language=en", "-Duser.country=US"]
    subprocess.run([*command, "-cp", f"{classes}:{jars}/*", "Golden", str(case_file), str(output)], check=True)
    answers: list[Json] = json.loads(output.read_text())
    return answers


def registered(classes: Path, jars: Path) -> list[Json]:
    """Return Avro's cases: each result as the registered schema (`avro`) and the bytes after the id."""
    registry = Apicurio(classes / "registry")
    registry.start()
    try:
        own = {
            "apicurio.registry.url": registry.url.replace("/ccompat/v7", "/registry/v2"),
            "apicurio.registry.auto-register": "true",
            "apicurio.registry.headers.enabled": "false",
            "apicurio.registry.id-handler": "io.apicurio.registry.serde.Legacy4ByteIdHandler",
            "apicurio.registry.use-id": "contentId",
        }
        answers = answered(
            classes, jars, [{**case, "config": {**case["config"], **own}} for case in avro_cases.cases()]
        )
        for answer in answers:
            answer["config"] = {name: value for name, value in answer["config"].items() if name not in own}
            if answer.get("result") is not None:
                data = base64.b64decode(answer["result"])
                answer["result"] = base64.b64encode(data[5:]).decode()
                schema = registry.get(f"schemas/ids/{int.from_bytes(data[1:5], 'big')}")
                answer["avro"] = schema["schema"]
        return answers
    finally:
        registry.kill()


def keep(name: str, answers: list[Json], *, sort_keys: bool = True) -> None:
    lines = ",\n".join(json.dumps(each, sort_keys=sort_keys) for each in answers)
    (FOLDER / f"{name}.json.gz").write_bytes(gzip.compress(f"[\n{lines}\n]\n".encode(), mtime=0))
    print(name, len(answers))


if __name__ == "__main__":
    main()
