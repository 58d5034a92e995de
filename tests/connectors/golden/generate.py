"""Makes the golden files: `.venv/bin/python -m tests.connectors.golden.generate`. Needs Java 17 with its compiler.

The cases (`transform_cases.py`, `converter_cases.py`) run through the classes of the real Kafka Connect, whose jars
come from Maven Central once (`ringfence.local.jars`); what they answer is kept beside the cases in
`transforms.json.gz` and `converters.json.gz`. The tests compare with these files and need no Java. Run it again after
a change of the cases.
"""

import gzip
import json
import subprocess
import tempfile
from pathlib import Path

from benchmarks.connect import JARS
from ringfence.local.jars import resolve
from ringfence.local.java import find_java
from tests.connectors.golden import converter_cases, transform_cases
from tests.connectors.golden.codec import Json

HERE = Path(__file__).resolve().parent


def main() -> None:
    jars = resolve("connect", JARS)
    java = find_java()
    with tempfile.TemporaryDirectory() as scratch:
        classes = Path(scratch)
        compiler = str(java.with_name("javac")) if java.with_name("javac").exists() else "javac"
        subprocess.run([compiler, "-cp", f"{jars}/*", "-d", scratch, str(HERE / "Golden.java")], check=True)
        for name, module in (("transforms", transform_cases), ("converters", converter_cases)):
            given, made = classes / "cases.json", classes / "made.json"
            given.write_text(json.dumps(list(module.cases())))
            command = [str(java), "-Duser.timezone=UTC", "-Duser.language=en", "-Duser.country=US"]
            command += ["-cp", f"{classes}:{jars}/*", "Golden", str(given), str(made)]
            subprocess.run(command, check=True)
            answered = json.loads(made.read_text())
            lines = ",\n".join(json.dumps(each, sort_keys=True) for each in answered)
            (HERE / f"{name}.json.gz").write_bytes(gzip.compress(f"[\n{lines}\n]\n".encode(), mtime=0))
            print(name, len(answered))


def load(name: str) -> list[Json]:
    """The golden cases of that file, with the answers."""
    cases: list[Json] = json.loads(gzip.decompress((HERE / f"{name}.json.gz").read_bytes()))
    return cases


if __name__ == "__main__":
    main()
