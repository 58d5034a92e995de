"""What moving a share group means, in numbers: no broker."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringfence.fencing.share.group_moves import PartitionMove, RequestedStart
from ringfence.fencing.share.ledger import State
from ringfence.fencing.share.offset_ranges import Ranges
from ringfence.fencing.share.partition_claims import is_sure

OFFSETS = st.integers(0, 30)


def move(start: int, to: int, first: int = 0, end: int = 30) -> PartitionMove:
    return PartitionMove("in", "id", 0, first, end, start, to)


def test_a_plain_group_has_done_what_is_before_its_start() -> None:
    assert move(10, 4).count() == (6, 0)
    assert move(10, 25).count() == (0, 15)
    assert move(-1, 4).count() == (0, 0)
    assert move(2, 5, first=5).count() == (0, 0)  # what was between has expired


@given(st.tuples(OFFSETS, OFFSETS, OFFSETS, OFFSETS), st.lists(st.tuples(OFFSETS, OFFSETS).map(sorted), max_size=4))
def test_with_a_ledger_each_offset_is_counted_by_what_the_ledger_says(
    places: tuple[int, int, int, int], pairs: list[list[int]]
) -> None:
    first, end, low, to = places
    first, end = sorted((first, end))
    low, to = min(max(low, first), end), min(max(to, first), end)
    done = Ranges([pair for pair in pairs if pair[0] > low and pair[1] < end])
    again, skipped = move(0, to, first, end).count(State("in", low, done))
    offsets = range(first, end)
    assert again == sum(1 for offset in offsets if offset >= to and (offset < low or offset in done))
    assert skipped == sum(1 for offset in offsets if offset < to and offset >= low and offset not in done)


@pytest.mark.parametrize(
    ("value", "offset"),
    [
        ("earliest", 5),
        ("latest", 30),
        ({"offset": 2}, 5),
        ({"offset": 17}, 17),
        ({"offset": 99}, 30),
        ({"time_ms": 1}, 12),
    ],
)
def test_where_a_wish_leads(value: object, offset: int) -> None:
    wish = RequestedStart.parse(value)
    assert wish.find(5, 30, 12) == offset
    assert RequestedStart.parse(wish.as_json()) == wish


def test_a_time_after_the_last_record_is_the_end() -> None:
    assert RequestedStart.parse({"time_ms": 9}).find(5, 30, -1) == 30


@pytest.mark.parametrize("value", ["first", "", None, 5, {"offset": -1}, {"offset": True}, {"offset": 1, "time_ms": 2}])
def test_what_is_no_wish_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="earliest"):
        RequestedStart.parse(value)


def test_a_leader_has_heard_of_a_move_when_its_records_say_so() -> None:
    assert is_sure(50, 50, None)
    assert not is_sure(50, 5, 5)
    assert not is_sure(0, 5, None)  # the start has gone back, and this may be of before
    assert not is_sure(0, 9, 5)
    assert is_sure(0, 5, 5)  # it came again after it had been given back: there is nothing in front of it
