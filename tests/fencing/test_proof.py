"""The arithmetic of the proof: which records belong to which transaction, and what their sums say."""

import pytest

from ringfence.connectors.api import PositionPaths
from ringfence.fencing.kafka.record_batches import Batch, Marker
from ringfence.fencing.proof.alignment import Border, align
from ringfence.fencing.proof.positions import PositionTally, find_number
from ringfence.fencing.proof.topic_tally import Fate, Part, Producer, TopicTally

BORDERS = [Border(10, 5, True), Border(20, 8, True), Border(30, 8, True), Border(40, 12, True)]
PARTS = [(10, 2), (11, 3), (20, 3), (41, 4)]


def running(borders: list[Border], early: int) -> list[Border]:
    return [each._replace(early=n < early) for n, each in enumerate(borders)]


def test_what_has_ended_is_compared_as_a_whole() -> None:
    assert align(BORDERS, PARTS).difference == 0
    assert align(BORDERS, [*PARTS, (25, 1)]).difference == 1
    assert align(BORDERS, PARTS[:-1]).difference == -4


@pytest.mark.parametrize("read", [3, 4])
def test_what_goes_on_is_compared_as_far_as_both_sides_were_read(read: int) -> None:
    found = align(running(BORDERS, 2), PARTS[:read])
    assert (found.difference, found.until_ms) == (0, 30 if read == 3 else 40)


@pytest.mark.parametrize("fault", [(5, 1), (15, 1), (20, -1)])
def test_a_fault_before_the_cut_shifts_every_border(fault: tuple[int, int]) -> None:
    assert align(running(BORDERS, 2), [*PARTS, fault]).difference == fault[1]


def test_what_began_behind_the_cut_is_not_judged() -> None:
    assert not align(running(BORDERS, 0), []).comparable


def test_deleted_records_are_left_out_of_both_sums() -> None:
    found = align(BORDERS, [(12, 1), (20, 3), (41, 4)], deleted_until_ms=15)
    assert (found.base, found.total, found.visible, found.difference) == (8, 4, 4, 0)
    assert align(BORDERS, [(20, 3), (41, 5)], deleted_until_ms=15).difference == 1
    assert not align(BORDERS, PARTS, deleted_until_ms=100).comparable


def test_markers_decide_and_records_behind_the_end_do_not_count() -> None:
    tally = TopicTally({0: 10})
    for batch in (
        Batch(0, 2, 7, 0, records=3),
        Batch(3, 3, 8, 0, records=1),
        Batch(4, 4, 7, 0, True, Marker.COMMIT, 1, 100),
        Batch(5, 6, 7, 1, records=2),
        Batch(7, 7, 7, 2, True, Marker.ABORT, 1, 200),
        Batch(8, 8, -1, -1, records=1),
        Batch(9, 9, 8, 0, records=1),
        Batch(10, 10, 8, 0, records=1),
        Batch(11, 11, 8, 0, True, Marker.COMMIT, 1, 300),
    ):
        tally.take(0, batch)
    tally.close()
    assert list(tally.parts) == [
        Part(Producer(7, 0), 0, 0, 2, 100, 3, Fate.VISIBLE),
        Part(Producer(7, 1), 0, 5, 6, 200, 2, Fate.ABORTED),
        Part(Producer(8, 0), 0, 3, 9, 300, 2, Fate.VISIBLE),
    ]
    assert (tally.plain, tally.gaps) == (1, False)
    tally.take(0, Batch(13, 13, 8, 0, records=1))
    assert tally.gaps, "offset 12 is missing"


def test_transactions_with_epochs_of_their_own_take_little_memory() -> None:
    tally = TopicTally({0: 2**40})
    for number in range(10_000):
        tally.take(0, Batch(2 * number, 2 * number, 7, number, records=1))
        tally.take(0, Batch(2 * number + 1, 2 * number + 1, 7, number, True, Marker.COMMIT, 1, 2**40 + number))
    tally.close()
    assert len(tally.parts) == 10_000
    assert tally.parts.bytes <= 48 * 10_000
    assert sum(part.records for part in tally.parts) == 10_000


def test_one_that_writes_into_a_transaction_that_hangs_is_told_by_its_own_offsets() -> None:
    tally = TopicTally({0: 10})
    tally.take(0, Batch(0, 1, 7, 0, records=2))
    tally.take(0, Batch(2, 2, 7, 1, records=1))
    tally.take(0, Batch(3, 3, 7, 1, True, Marker.COMMIT, 1, 100))
    assert list(tally.parts) == [
        Part(Producer(7, 1), 0, 2, 2, 0, 0, Fate.OPEN),
        Part(Producer(7, 0), 0, 0, 1, 100, 3, Fate.VISIBLE),
    ]


def test_places_are_found_in_json_in_text_and_in_headers() -> None:
    wrapped = b'{"schema":{"type":"int64"},"payload":{"a":{"n":5}}}'
    assert find_number("value.a.n", None, wrapped, ()) == 5
    assert find_number("key", b"12", None, ()) == 12
    assert find_number("headers.at", None, None, [("at", b"9")]) == 9
    assert find_number("value.a", None, b"no json", ()) is None


def test_gaps_and_doubles_are_told_by_sequence() -> None:
    tally = PositionTally(PositionPaths("value", ("key",)))
    for offset, (task, number) in enumerate([(0, 0), (1, 0), (0, 1), (0, 4), (1, 1), (0, 1), (0, 2)]):
        tally.take("t", 0, offset, str(task).encode(), str(number).encode(), ())
    tally.take("t", 0, 9, b"0", b"x", ())
    assert (tally.doubles, tally.unnamed) == (1, 1)
    assert tally.first_doubles == ["0: 1 again in t, partition 0, offset 5"]
    assert tally.gaps() == (1, ["0: 3"])
    assert tally.sequences() == [("0", 0, 4), ("1", 0, 1)]
    assert PositionTally(PositionPaths("value", consecutive=False)).gaps() is None
