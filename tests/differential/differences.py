"""Finds the differences of two runs, and reads the list of those that are meant to be there."""

import tomllib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from tests.differential.shapes import facts
from tests.differential.sides import Side

LIST = Path(__file__).with_name("differences.toml")
VALIDATED = "validate"


@dataclass(frozen=True, order=True)
class Difference:
    """`aspect`: status, media type, refusal, a path of the body, or a fact of a setting.

    `theirs` and `ours`: "" for none.
    """

    case: str
    aspect: str
    theirs: str
    ours: str


def found(theirs: Side, ours: Side) -> set[Difference]:
    """All of them."""
    assert theirs.answers.keys() == ours.answers.keys()
    differences = set()
    for case, their in theirs.answers.items():
        our = ours.answers[case]
        if their.status != our.status:
            differences.add(Difference(case, "status", str(their.status), str(our.status)))
        if their.media_type != our.media_type:
            differences.add(Difference(case, "media type", their.media_type, our.media_type))
        if their.status == our.status and their.refusal != our.refusal:
            differences.add(Difference(case, "refusal", their.refusal, our.refusal))
        if their.status == our.status:
            theirs_only, ours_only = _by_path(their.body - our.body), _by_path(our.body - their.body)
            for path in theirs_only.keys() | ours_only.keys():
                differences.add(Difference(case, path, theirs_only.get(path, ""), ours_only.get(path, "")))
    return differences | _facts(theirs, ours)


def _by_path(body: frozenset[str]) -> dict[str, str]:
    """Path to type; what is below a path that is there itself is left out."""
    types: dict[str, str] = {}
    for path, _, kind in sorted(entry.rpartition(": ") for entry in body):
        if not any(path.startswith((f"{top}.", f"{top}(")) for top in types):
            types[path] = kind
    return types


def _facts(theirs: Side, ours: Side) -> set[Difference]:
    """Of the settings that both know."""

    def of(side: Side) -> dict[str, object]:
        return facts([entry["definition"] for entry in side.bodies[VALIDATED]["configs"]])

    their, our = of(theirs), of(ours)
    differ = (fact for fact in their.keys() & our.keys() if their[fact] != our[fact])
    return {Difference("settings", fact, str(their[fact]), str(our[fact])) for fact in differ}


@dataclass(frozen=True)
class Expected:
    """One difference that is meant to be there. `case` and `aspect` may hold `*`, and `theirs` and `ours` may be it."""

    case: str
    aspect: str
    theirs: str
    ours: str

    def covers(self, difference: Difference) -> bool:
        patterns = (self.case, self.aspect, self.theirs, self.ours)
        given = (difference.case, difference.aspect, difference.theirs, difference.ours)
        return all(fnmatchcase(text, pattern) for text, pattern in zip(given, patterns, strict=True))


def listed() -> list[Expected]:
    """Those in `differences.toml`: each entry has a reason, one or more cases, and one or more aspects."""
    entries: list[dict[str, Any]] = tomllib.loads(LIST.read_text())["difference"]
    assert all(entry["reason"].strip() for entry in entries)
    return [
        Expected(case, aspect, str(entry["theirs"]), str(entry["ours"]))
        for entry in entries
        for case in entry["cases"]
        for aspect in entry["aspects"]
    ]


def unlisted(differences: set[Difference], expected: list[Expected]) -> list[Difference]:
    """What differs and should not."""
    return sorted(one for one in differences if not any(entry.covers(one) for entry in expected))


def outdated(differences: set[Difference], expected: list[Expected]) -> list[Expected]:
    """What is listed and does not differ (any more)."""
    return [entry for entry in expected if not any(entry.covers(one) for one in differences)]
