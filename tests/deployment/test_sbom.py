"""`make sbom` names everything that the image holds, with hashes."""

import hashlib
import json
from pathlib import Path

from tools import sbom

LOCK = """\
# a word
amqp==5.4.2 \\
    --hash=sha256:{0} \\
    --hash=sha256:{1}
Typing_Extensions==4.15.0 ; python_version < "3.13" \\
    --hash=sha256:{0}
""".format("a" * 64, "b" * 64)


def test_packages_of_a_lock_file() -> None:
    one, other = sbom.python_packages(LOCK)
    assert (one["purl"], [each["content"][0] for each in one["hashes"]]) == ("pkg:pypi/amqp@5.4.2", ["a", "b"])
    assert (other["name"], other["version"]) == ("typing-extensions", "4.15.0")


def test_jars_by_their_files(tmp_path: Path) -> None:
    (tmp_path / "spark-core_2.13-4.1.0.jar").write_bytes(b"jar")
    (tmp_path / "plain.jar").write_bytes(b"other")
    plain, core = sbom.bundled_jars(tmp_path)
    assert (core["name"], core["version"]) == ("spark-core_2.13", "4.1.0")
    assert core["hashes"][0]["content"] == hashlib.sha256(b"jar").hexdigest()
    assert (plain["name"], "version" in plain) == ("plain", False)


def test_of_this_checkout(tmp_path: Path) -> None:
    """Every locked package, every Kafka jar, every Spark jar, once, and the same each time."""
    first, second = tmp_path / "a.json", tmp_path / "b.json"
    assert sbom.main(["--output", str(first)]) == 0
    assert sbom.main(["--output", str(second)]) == 0
    assert first.read_bytes() == second.read_bytes()
    made = json.loads(first.read_text())
    assert (made["bomFormat"], made["specVersion"]) == ("CycloneDX", "1.6")
    references = [one["bom-ref"] for one in made["components"]]
    assert len(references) == len(set(references))
    names = {one["name"] for one in made["components"]}
    assert {"django", "confluent-kafka", "pyspark", "kafka-server", "spark-core_2.13"} <= names
    locked = [line for line in sbom.LOCK.read_text().splitlines() if "==" in line]
    assert sum(one["purl"].startswith("pkg:pypi/") for one in made["components"]) == len(locked)
    digests = {each["content"] for one in made["components"] for each in one.get("hashes", ())}
    assert {line.split()[0] for line in sbom.KAFKA_JARS.read_text().splitlines()} <= digests
