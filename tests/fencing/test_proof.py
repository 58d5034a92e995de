"""The arithmetic of the proof: which records belong to which transaction, and what their sums say."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringfence.connectors.api import PositionPaths
from ringfence.fencing.kafka.record_batches import Batch, Marker
from ringfence.fencing.offsets.record_counts import AttemptCounts, RecordCounts
from ringfence.fencing.proof.alignment import Alignment, Border, Borders, _between, _Sums, align
from ringfence.fencing.proof.count import _align_all
from ringfence.fencing.proof.positions import PositionTally, find_number
from ringfence.fencing.proof.tallies import (
    Attempts,
    Fate,
    OffsetCommits,
    OffsetRecord,
    OffsetRecords,
    PackedRows,
    PackedValues,
    Part,
    Producer,
    TopicTally,
)

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


def peak_bytes(*, reset: bool = False) -> int:
    """The most memory that this process has had since the last reset."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


@pytest.mark.thorough
def test_many_transactions_take_little_memory() -> None:
    """Each has an epoch of its own, an offset record and a value that names it, and twenty records in two partitions.

    Objects take more than 1,000 bytes for each.
    """
    number_of = 100_000
    before = peak_bytes(reset=True)
    tally, offsets = TopicTally({0: 2**40, 1: 2**40}), OffsetRecords()
    commits = OffsetCommits(offsets, {0: 2**40})
    for number in range(number_of):
        who, time_ms = (7 + number // 32_000, number % 32_000), 2**40 + 13 * number + number % 7
        for partition in (0, 1):
            first = 11 * number
            tally.take(partition, Batch(first, first + 9, *who, records=10))
            tally.take(partition, Batch(first + 10, first + 10, *who, True, Marker.COMMIT, 1, time_ms))
        counts = AttemptCounts(0, 5, 1, RecordCounts(20 * (number + 1)))
        value = b'{"position":%d}' % (2020 * number)
        offsets.add(0, OffsetRecord(2 * number, b'["c",{"filename":"a"}]', value, counts))
    tally.close()
    for number in range(number_of):
        who, time_ms = (7 + number // 32_000, number % 32_000), 2**40 + 13 * number + number % 7
        commits.take(0, Batch(2 * number, 2 * number, *who))
        commits.take(0, Batch(2 * number + 1, 2 * number + 1, *who, True, Marker.COMMIT, 1, time_ms))
    alignments = _align_all(commits, {"t": tally}, [], "records")
    print(f"{peak_bytes() - before:,} bytes at the most, {tally.parts.bytes:,} of them for records")
    assert peak_bytes() - before < 200 * number_of
    assert alignments == {(0, 5, 1): Alignment(20 * number_of, 20 * number_of, time_ms)}
    assert (len(tally.parts), tally.parts.bytes) <= (2 * number_of, 24 * 2 * number_of)
    assert [each.value for each in commits.source.values()] == [b'{"position":%d}' % (2020 * (number_of - 1))]


@given(
    st.integers(1, 5).flatmap(
        lambda columns: st.lists(st.tuples(*[st.integers(-1, 2**62)] * columns), min_size=1, max_size=40)
    )
)
def test_rows_come_back_as_they_were(few: list[tuple[int, ...]]) -> None:
    rows = PackedRows(len(few[0]))
    expected = few * (10_000 // len(few))
    for row in expected:
        rows.append(*row)
    assert len(rows) == len(expected)
    assert list(rows) == expected


@given(st.lists(st.one_of(st.none(), st.binary(max_size=300)), min_size=1, max_size=50), st.integers(1, 4))
def test_values_come_back_as_they_were(few: list[bytes | None], large: int) -> None:
    values = PackedValues()
    expected = [*few, bytes(300_000 * large), *few * 40]
    for value in expected:
        values.append(value)
    assert list(values) == expected


def test_offset_records_are_read_in_step_with_their_batches() -> None:
    records = OffsetRecords()
    counts = AttemptCounts(1, 2, 3, RecordCounts(4, 5, 6))
    made = [
        OffsetRecord(at, b"k%d" % (at % 2), None if at % 3 else b"v%d" % at, counts if at % 2 else None)
        for at in range(0, 40, 2)
    ]
    for each in made:
        records.add(0, each)
    assert records.up_to(1, 0, 100) == []
    assert records.up_to(0, 0, 9) == made[:5]
    assert records.up_to(0, 11, 12) == [made[6]], "the one at offset 10 is passed over"
    assert records.up_to(0, 13, 100) == made[7:]
    assert records.up_to(0, 101, 200) == []


def test_an_attempt_is_known_by_producer_id_and_epoch() -> None:
    attempts = Attempts()
    assert not attempts
    for epoch in (0, 3, 32_767):
        assert attempts.setdefault(Producer(7, epoch), (0, 1, 1)) == (0, 1, 1)
    assert attempts.setdefault(Producer(7, 4), (0, 1, 2)) == (0, 1, 2)
    assert attempts.setdefault(Producer(7, 3), (0, 1, 2)) == (0, 1, 1), "the first one stays"
    assert Producer(7, 32_767) in attempts
    assert Producer(7, 1) not in attempts
    assert Producer(8, 0) not in attempts


@given(st.data())
def test_sums_at_borders_are_those_of_all_parts_before(data: st.DataObject) -> None:
    """Also where a clock has gone back."""
    times = data.draw(st.lists(st.integers(0, 50), min_size=1, max_size=8))
    borders = [Border(time_ms, 0, False) for time_ms in times]
    parts = data.draw(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 9)), max_size=12))
    sums = _Sums(Borders(borders), parts)
    for n in range(len(borders)):
        assert sums.up_to(n) == sum(records for time_ms, records in parts if time_ms <= _between(borders, n))


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
