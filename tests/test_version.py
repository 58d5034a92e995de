"""The version is said in three places, and they agree: the package, the changelog and the tag of the release."""

import re
import subprocess
from pathlib import Path

import pytest

from ringfence import __version__

ROOT = Path(__file__).parent.parent
_RELEASE = re.compile(r"^## (\d+\.\d+\.\d+) - (\d{4}-\d\d-\d\d)$", re.MULTILINE)


def test_the_newest_release_of_the_changelog_is_the_packages_version() -> None:
    headings = re.findall(r"^## .*$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == "## Unreleased"
    releases = [found.groups() for heading in headings[1:] if (found := _RELEASE.match(heading))]
    assert len(releases) == len(headings) - 1, "a heading is neither a version with a date nor Unreleased"
    assert releases[0][0] == __version__
    numbers = [tuple(int(part) for part in version.split(".")) for version, _ in releases]
    assert numbers == sorted(numbers, reverse=True)
    assert [day for _, day in releases] == sorted((day for _, day in releases), reverse=True)


def test_a_tag_marks_the_commit_of_its_version() -> None:
    def git(*asked: str) -> str:
        return subprocess.run(["git", *asked], cwd=ROOT, capture_output=True, text=True, check=True).stdout

    if not (ROOT / ".git").exists():
        pytest.skip("this is no checkout")
    for tag in git("tag", "--list", "v*").split():
        package = git("show", f"{tag}:platform/ringfence/__init__.py")
        assert f'__version__ = "{tag.removeprefix("v")}"' in package, tag
        assert f"## {tag.removeprefix('v')} - " in git("show", f"{tag}:CHANGELOG.md"), tag
