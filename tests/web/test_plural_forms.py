"""A number agrees with its noun, whatever it is."""

import re
from pathlib import Path

import pytest

from ringfence.connectors.plural_forms import write_count, write_noun

TEMPLATES = Path(__file__).resolve().parents[2] / "templates"
_NOUNS = "check|connector|id|letter|message|offset|partition|record|row|session|setting|slot|task|time|topic|worker"
_FIXED_PLURAL = re.compile(rf"\}}\}} (?:more )?(?:{_NOUNS})s\b")
_MANY_ALONE = re.compile(
    r"of (all )?\{\{ [a-z_.]*count \}\} partitions|\}\} tasks, the same error|\}\} records a (minute|second)"
    r"|from the first of \{\{ found\.tasks \}\} tasks"
)
"""Sentences that are written for more than one only, and rates."""


@pytest.mark.parametrize(
    ("number", "written"), [(0, "0 records"), (1, "1 record"), (2, "2 records"), (1234567, "1,234,567 records")]
)
def test_a_count_is_written_with_its_noun(number: int, written: str) -> None:
    assert write_count(number, "record") == written


def test_nouns_with_plurals_of_their_own() -> None:
    assert write_noun(1, "entry", "entries") == "entry"
    assert write_count(3, "entry", "entries") == "3 entries"


def test_no_template_has_a_plural_that_is_always_there() -> None:
    found = [
        f"{path.name}: {line.strip()}"
        for path in sorted(TEMPLATES.rglob("*.html"))
        for line in path.read_text().splitlines()
        if _FIXED_PLURAL.search(_MANY_ALONE.sub("", line))
    ]
    assert found == []
