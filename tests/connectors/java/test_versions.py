"""Versions in Maven's order, and `connector.plugin.version`."""

import itertools

import pytest

from ringfence.connectors.java.versions import accepts, check, choose, order

ASCENDING = (
    "unknown", "1.0-alpha1", "1.0-alpha2", "1.0-beta", "1.0.0.M1", "1.0-rc1", "1.0-CR2", "1.0-SNAPSHOT", "1.0",
    "1.0-sp1", "1.0.1", "1.9.0", "1.10.0", "3.7.0.Alpha1", "3.7.0.CR1", "3.7.0.Final", "3.7.1.Final", "10",
)  # fmt: skip


def test_the_order() -> None:
    for low, high in itertools.combinations(ASCENDING, 2):
        assert order(low) < order(high), (low, high)
    assert order("1") == order("1.0") == order("1.0.0.Final") == order("1-GA")


INSTALLED = ("2.0.0", "1.5.1", "1.5.0", "1.0.0-rc1")


@pytest.mark.parametrize(
    ("requirement", "version"),
    [
        (None, "2.0.0"), ("", "2.0.0"), ("latest", "2.0.0"), ("1.5.0", "1.5.0"), (" 1.5 ", "1.5.0"),
        ("[1.5.0]", "1.5.0"),
        ("[1.0,2.0)", "1.5.1"), ("[1.0,2.0]", "2.0.0"), ("(,1.5.1)", "1.5.0"), ("(1.5.1,)", "2.0.0"),
        ("(2.0.0,)", None), ("3", None), ("(,1.5.0),(1.5.1,1.9]", "1.0.0-rc1"),
        ("[ 1.4 , 1.5.0 ]", "1.5.0"), ("[1.0]", None),
    ],
)  # fmt: skip
def test_the_newest_that_is_asked_for(requirement: str | None, version: str | None) -> None:
    assert choose(requirement, reversed(INSTALLED), str) == version
    assert version is None or accepts(requirement, version)


@pytest.mark.parametrize("wrong", ["[1,2", "1,2", "[2,1]", "(1,1)", "[]", "(1)", "[1,2)(3,4]", "[1,2,3]", "]1,2["])
def test_what_is_no_range_is_refused_with_the_remedy(wrong: str) -> None:
    with pytest.raises(ValueError, match="is neither a version nor a range of versions: write"):
        check(wrong)
