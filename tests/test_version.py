"""The version is said in four places, and they agree: the package, the changelog, the chart and the tag."""

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from ringfence import __version__

ROOT = Path(__file__).parent.parent
_RELEASE = re.compile(r"^## (\d+\.\d+\.\d+) - (\d{4}-\d\d-\d\d)$", re.MULTILINE)


def test_the_newest_release_of_the_changelog_is_the_packages_version() -> None:
    headings = re.findall(r"^## .*$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    releases = [found.groups() for heading in headings if (found := _RELEASE.match(heading))]
    assert len(releases) == len(headings), "a heading is no version with a date; new changes have notes in docs/changes"
    assert releases[0][0] == __version__
    numbers = [tuple(int(part) for part in version.split(".")) for version, _ in releases]
    assert numbers == sorted(numbers, reverse=True)
    assert [day for _, day in releases] == sorted((day for _, day in releases), reverse=True)


def test_the_chart_takes_the_image_of_its_version() -> None:
    chart = (ROOT / "deploy" / "helm" / "ringfence" / "Chart.yaml").read_text()
    assert re.findall(r'^(?:version|appVersion): "?([^"\n]+)"?$', chart, re.MULTILINE) == [__version__] * 2


def test_a_tag_marks_the_commit_of_its_version() -> None:
    def git(*asked: str) -> str:
        return subprocess.run(["git", *asked], cwd=ROOT, capture_output=True, text=True, check=True).stdout

    if not (ROOT / ".git").exists():
        pytest.skip("this is no checkout")
    for tag in git("tag", "--list", "v*").split():
        package = git("show", f"{tag}:platform/ringfence/__init__.py")
        assert f'__version__ = "{tag.removeprefix("v")}"' in package, tag
        assert f"## {tag.removeprefix('v')} - " in git("show", f"{tag}:CHANGELOG.md"), tag


def test_every_note_for_the_changelog_is_of_a_kind_that_a_release_takes() -> None:
    kinds = [
        each["directory"] for each in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["towncrier"]["type"]
    ]
    notes = [note.name for note in (ROOT / "docs" / "changes").iterdir() if note.name != "README.md"]
    pattern = re.compile(rf"\+[\w-]+\.({'|'.join(kinds)})\.md")

    assert [name for name in notes if not pattern.fullmatch(name)] == [], "see docs/changes/README.md"


def test_a_release_finds_its_place_in_the_changelog() -> None:
    assert (ROOT / "CHANGELOG.md").read_text().count(_settings()["start_string"]) == 1


def _settings() -> dict[str, Any]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return dict(project["tool"]["towncrier"])
