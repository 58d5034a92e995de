"""The demo's count would notice a lost, a doubled and a torn record."""

import pytest

from ringfence.demo.job import FLIGHTS, Tally, TallyResult, flights_file


@pytest.mark.parametrize(
    ("records", "verdict"),
    [
        ([b"a", b"b", b"c"], TallyResult(expected=3, arrived=3, missing=0, twice=0, unknown=0)),
        ([b"a", b"c"], TallyResult(expected=3, arrived=2, missing=1, twice=0, unknown=0)),
        ([b"a", b"b", b"b", b"c"], TallyResult(expected=3, arrived=4, missing=0, twice=1, unknown=0)),
        ([b"a", b"b", b"b"], TallyResult(expected=3, arrived=3, missing=1, twice=1, unknown=0)),
        ([b"a", b"b", b"c", b"torn"], TallyResult(expected=3, arrived=4, missing=0, twice=0, unknown=1)),
    ],
)
def test_only_each_line_once_is_exactly_once(records: list[bytes], verdict: TallyResult) -> None:
    tally = Tally([b"a", b"b", b"c"])
    for record in records:
        tally.add(record)
    assert tally.verdict() == verdict
    assert verdict.exactly_once == (records == [b"a", b"b", b"c"])


def test_the_flights_are_all_there_and_no_two_are_the_same() -> None:
    lines = flights_file().read_bytes().splitlines()
    assert len(lines) == len(set(lines)) == FLIGHTS
    assert lines[0].startswith(b"2013,1,1,517,")
