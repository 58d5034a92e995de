"""Patterns of tenants mean what they mean to Python, and never take longer than the text is long."""

import re
import time

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from ringfence.connectors.api import ConfigException
from ringfence.connectors.builtin.files import settings as files
from ringfence.connectors.builtin.kafka_source.topics import Names
from ringfence.connectors.builtin.postgres import settings as postgres
from ringfence.connectors.sdk import linear_patterns
from ringfence.connectors.sdk.linear_patterns import LONGEST_PATTERN, LONGEST_TEXT, LinearPattern
from ringfence.connectors.sdk.snapshot_signals import SnapshotRequest

MOST_CPU_SECONDS = 2.0

COSTLY = [
    "(a+)+b", "(a*)*b", "(a|a)*b", "(a|aa)+b", "(.*a){20}b", ".*.*.*.*.*.*b", "(?:a?){30}a{30}b", "(aa|aa)" * 12 + "b",
    "((a|ab)|(a|ab))*c", "(?!(a+)+b).*(a+)+b", "(?:(?:a+)?)*b", "(?i:(a+)+)B", "(?=(a|a)*b)a*", "(a?)(a?)(a?)*b",
]  # fmt: skip


@pytest.mark.parametrize("pattern", COSTLY)
def test_no_pattern_takes_longer_than_its_text(pattern: str) -> None:
    began = time.process_time()
    assert not LinearPattern(pattern).fullmatch("a" * 249)
    assert time.process_time() - began < MOST_CPU_SECONDS


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        "(" * 2000 + ")" * 2000,
        "a{1,65535}{1,65535}",
        "(a{1000}){1000}",
        r"(a)\1",
        "(?>a)",
        "x" * (LONGEST_PATTERN + 1),
    ],
)
def test_what_cannot_be_matched_so_is_refused_with_the_reason(pattern: str) -> None:
    began = time.process_time()
    with pytest.raises(ValueError, match=r".+"):
        LinearPattern(pattern)
    with pytest.raises(ConfigException):
        files.check_pattern("input.file.pattern", pattern)
    with pytest.raises(ConfigException):
        postgres.check_patterns("table.include.list", [pattern])
    with pytest.raises(ValueError, match="is not a regular expression"):
        Names([pattern])
    assert time.process_time() - began < MOST_CPU_SECONDS


def test_a_long_text_is_no_name() -> None:
    assert LinearPattern("a*").fullmatch("a" * LONGEST_TEXT)
    assert not LinearPattern("a*").fullmatch("a" * (LONGEST_TEXT + 1))


def test_lists_of_connectors_match_so() -> None:
    began = time.process_time()
    name = "a" * 249
    assert name not in Names(COSTLY)
    assert name not in postgres.Patterns(COSTLY)
    assert not SnapshotRequest("execute-snapshot", tuple(COSTLY)).names(name)
    assert time.process_time() - began < 3 * MOST_CPU_SECONDS


_PIECES = st.sampled_from(
    ["a", "b", "c", ".", "[ab]", "[^a]", r"\d", r"\w", "*", "+", "?", "*?", "{1,2}", "{2}", "|", "(", "(?:", "(?=",
     "(?!", "(?<=a)", "(?<!ab)", ")", "^", "$", r"\b", r"\B", r"\Z", r"\A", "(?i:", "A", "(?P<n>", "(?s:", "(?m:"]
)  # fmt: skip


@settings(deadline=None)
@given(
    st.lists(_PIECES, max_size=9).map("".join),
    st.sampled_from([0, re.IGNORECASE, re.ASCII]),
    st.lists(st.text("abcA1\n\u017f", max_size=6), max_size=6),
    st.booleans(),
)
@example("(?!public\\.audit).*", 0, ["public.audit", "public.orders"], True)
def test_the_meaning_is_pythons(pattern: str, flags: int, names: list[str], slow: bool) -> None:
    try:
        theirs = re.compile(pattern, flags)
    except re.error:
        with pytest.raises(ValueError, match=r".+"):
            LinearPattern(pattern, flags)
        return
    with pytest.MonkeyPatch.context() as patch:
        if slow:
            patch.setattr(linear_patterns, "_MOST_WAYS", -1)
        try:
            ours = LinearPattern(pattern, flags)
        except ValueError:
            assume("+" not in pattern)  # a possessive repetition
            raise
    assert [ours.fullmatch(name) for name in names] == [theirs.fullmatch(name) is not None for name in names]


@settings(deadline=None)
@given(
    st.lists(_PIECES, max_size=9).map("".join),
    st.sampled_from([0, re.IGNORECASE, re.ASCII]),
    st.lists(st.text("abcA1\n", max_size=8), min_size=1, max_size=6),
)
@example("(a+)(a*?)b|(c)", 0, ["xaab", "c", "b"])
@example("((a|ab)(c|bcd)(d*))", 0, ["abcd"])
@example("(?:(a)|(b))+?c", 0, ["abac"])
def test_groups_are_pythons(pattern: str, flags: int, texts: list[str]) -> None:
    try:
        theirs = re.compile(pattern, flags)
    except re.error:
        assume(False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(linear_patterns, "_MOST_WAYS", -1)
        try:
            ours = LinearPattern(pattern, flags, captures=True)
        except ValueError:
            assume(False)
    for text in texts:
        match = theirs.search(text)
        expected = match and (match.start(), match.end(), (match[0], *match.groups()))
        assert ours.search(text) == expected


COSTLY_WITH_GROUPS = [
    "(a+)+b", "(a|a)*b", "(a|aa)+b", "(.*a){20}b", "(.*)(.*)(.*)(.*)b", "(?:(a)|(a))*(b)", "((a|ab)|(a|ab))*c",
    "(?!(?:a+)+b)(.*)(a+)+b",
]  # fmt: skip


@pytest.mark.parametrize("pattern", COSTLY_WITH_GROUPS)
def test_no_search_takes_longer_than_its_text(pattern: str) -> None:
    costly = LinearPattern(pattern, captures=True)
    began = time.process_time()
    assert costly.search("a" * 249) is None
    assert time.process_time() - began < MOST_CPU_SECONDS


@pytest.mark.parametrize("pattern", ["(a*)*b", "(?=(a+)+b)a*", r"(a+)+\1", "(?>a+)+(b|c)+(d|e)+"])
def test_groups_that_depend_on_how_an_engine_goes_back_are_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="beside so many repetitions and alternatives"):
        LinearPattern(pattern, captures=True)


def test_what_is_quick_may_refer_back() -> None:
    assert LinearPattern(r"(a+)-\1", captures=True).search("x-aa-aa") == (2, 7, ("aa-aa", "aa"))
