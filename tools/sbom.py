"""`make sbom`: writes a software bill of materials (CycloneDX 1.6, JSON) of the image.

Python packages with the SHA-256 of their files come from requirements.lock, Kafka's jars from
platform/ringfence/local/kafka-jars.sha256, Spark's from the installed PySpark, which bundles them. It needs no network,
and the same input gives the same output, so that two releases can be compared.
"""

import argparse
import hashlib
import json
import re
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

ROOT: Final = Path(__file__).resolve().parents[1]
LOCK: Final = ROOT / "requirements.lock"
KAFKA_JARS: Final = ROOT / "platform" / "ringfence" / "local" / "kafka-jars.sha256"
_PACKAGE: Final = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^\s;\\]+)")
_HASH: Final = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_JAR: Final = re.compile(r"^(?P<name>.+?)-(?P<version>\d[\w.+-]*)\.jar$")

Component = dict[str, Any]


def python_packages(lock: str) -> Iterator[Component]:
    """Yield the packages of a pip requirements file with hashes. A package has one hash per file (wheels
    and source).
    """
    for block in re.split(r"\n(?=\S)", lock):
        match = _PACKAGE.match(block)
        if match is None:
            continue
        name, version = match["name"].lower().replace("_", "-"), match["version"]
        hashes = [_sha256(digest) for digest in _HASH.findall(block)]
        yield _component(f"pkg:pypi/{quote(name)}@{quote(version)}", name, version, hashes)


def listed_jars(checksums: str) -> Iterator[Component]:
    """Yield the jars of lines in the form of sha256sum."""
    for line in checksums.splitlines():
        if line.strip() and not line.startswith("#"):
            digest, name = line.split()
            yield jar(name.lstrip("*"), digest)


def bundled_jars(folder: Path) -> Iterator[Component]:
    """Yield the jars in a folder."""
    for file in sorted(folder.glob("*.jar")):
        yield jar(file.name, hashlib.sha256(file.read_bytes()).hexdigest())


def jar(name: str, digest: str) -> Component:
    """A file name has no Maven group, so the reference is a generic one; the hash identifies the file."""
    match = _JAR.match(name)
    artifact, version = (match["name"], match["version"]) if match else (name.removesuffix(".jar"), "")
    reference = f"pkg:generic/{quote(artifact)}" + (f"@{quote(version)}" if version else "")
    return _component(f"{reference}?checksum=sha256:{digest}", artifact, version, [_sha256(digest)])


def _sha256(digest: str) -> dict[str, str]:
    return {"alg": "SHA-256", "content": digest}


def _component(reference: str, name: str, version: str, hashes: list[dict[str, str]]) -> Component:
    component: Component = {"type": "library", "bom-ref": reference, "name": name, "purl": reference}
    component |= {"version": version} if version else {}
    return component | ({"hashes": hashes} if hashes else {})


def document(version: str, components: Iterable[Component]) -> dict[str, Any]:
    """Return the document with each component once: Kafka and Spark share some jars."""
    unique = {one["bom-ref"]: one for one in components}
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {"type": "application", "bom-ref": "ringfence", "name": "ringfence", "version": version}
        },
        "components": [unique[reference] for reference in sorted(unique)],
    }


def spark_jars() -> Path:
    """Return the jars' folder in the installed PySpark."""
    return Path(str(distribution("pyspark").locate_file("pyspark"))) / "jars"


def main(argv: list[str]) -> int:
    """Return 0, or 1 if the installed PySpark is not the locked one."""
    parser = argparse.ArgumentParser(prog="make sbom", description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "sbom.json", metavar="FILE")
    args = parser.parse_args(argv)
    packages = list(python_packages(LOCK.read_text()))
    locked = {one["name"]: one["version"] for one in packages}
    try:
        installed = distribution("pyspark").version
        version = distribution("ringfence").version
    except PackageNotFoundError as error:
        print(f"{error}: run it in the environment that `make setup` creates", file=sys.stderr)
        return 1
    if locked.get("pyspark") != installed:
        print(
            f"PySpark {installed} is installed, but {locked.get('pyspark')} is locked: run `make setup`",
            file=sys.stderr,
        )
        return 1
    sbom_document = document(version, [*packages, *listed_jars(KAFKA_JARS.read_text()), *bundled_jars(spark_jars())])
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(json.dumps(sbom_document, indent=2) + "\n")
    print(f"{args.output}: {len(sbom_document['components'])} components")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
