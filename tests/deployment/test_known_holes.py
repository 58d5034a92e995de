"""Nothing is pinned that is older than deploy/known-holes.txt asks for."""

import re

import pytest
from packaging.version import Version

from tests.support.compose import ROOT, services


def listed(text: str) -> dict[str, Version]:
    lines = [line.split() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return {name: Version(version) for name, version, *_ in lines}


def pins() -> dict[str, Version]:
    """Of images and Python packages, by name."""
    images = [str(service["image"]) for service in services().values()]
    images += re.findall(r"^FROM (\S+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    found = {
        name: Version(number[0])
        for name, _, tag in (image.partition(":") for image in images)
        if (number := re.match(r"\d+(\.\d+)+", tag)) is not None
    }
    packages = re.findall(r"^([\w.-]+)==(\S+)", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    return found | {name.lower(): Version(version) for name, version in packages}


def holes(known: dict[str, Version], pinned: dict[str, Version]) -> list[str]:
    return [f"{name} {pinned[name]} < {sound}" for name, sound in known.items() if pinned.get(name, sound) < sound]


KNOWN = listed((ROOT / "deploy" / "known-holes.txt").read_text())


def test_no_pin_is_older_than_the_list_asks_for() -> None:
    assert holes(KNOWN, pins()) == []
    assert {"valkey/valkey", "postgres", "apache/kafka", "python", "eclipse-temurin", "django"} <= pins().keys()


@pytest.mark.parametrize(
    "name,version", [("valkey/valkey", "8.1.1"), ("postgres", "16.9"), ("python", "3.11.13"), ("django", "5.2.1")]
)
def test_an_old_pin_is_noticed(name: str, version: str) -> None:
    assert holes(KNOWN, {name: Version(version)}) == [f"{name} {version} < {KNOWN[name]}"]
