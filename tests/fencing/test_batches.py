"""Batches as a broker sends them, and what a read_committed reader may see of them."""

import struct
from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatchBuilder

from ringfence.fencing.kafka.record_batches import Batch, Decisions, HiddenOffsets, Marker, parse

END = {Marker.COMMIT, Marker.ABORT}


def marker(offset: int, producer_id: int, kind: Marker, epoch: int = 0) -> Batch:
    return Batch(offset, offset, producer_id, epoch, True, kind)


def visible(batches: list[Batch]) -> tuple[set[int], set[int]]:
    """Offsets of visible data, and the open producers."""
    decisions = Decisions()
    for batch in batches:
        decisions.take(batch)
    hidden = decisions.find_hidden()
    data = {offset for each in batches if not each.control for offset in range(each.first, each.last + 1)}
    seen = {offset for offset in data if offset not in hidden}
    assert decisions.last_visible == max(seen, default=None)
    return seen, set(decisions.open)


def reference(batches: list[Batch]) -> tuple[set[int], set[int]]:
    """The same, by looking for the next marker of each batch's own producer."""
    seen: set[int] = set()
    opened: set[int] = set()
    for number, batch in enumerate(batches):
        if batch.control:
            continue
        offsets = range(batch.first, batch.last + 1)
        if batch.producer_id < 0:
            seen.update(offsets)
            continue
        ends = [
            each.marker for each in batches[number:] if each.producer_id == batch.producer_id and each.marker in END
        ]
        if not ends:
            opened.add(batch.producer_id)
        elif ends[0] is Marker.COMMIT:
            seen.update(offsets)
    return seen, opened


@st.composite
def logs(draw: st.DrawFn) -> list[Batch]:
    """Interleaved producers, fences (a marker under a higher epoch), gaps as compaction leaves them, other controls."""
    at, epochs, batches = draw(st.integers(0, 5)), dict.fromkeys(range(4), 0), []
    for _ in range(draw(st.integers(0, 40))):
        producer_id = draw(st.integers(-1, 3))
        kind = draw(st.sampled_from(["data", "data", "data", "commit", "abort", "fence", "emptied"]))
        size = draw(st.integers(1, 4))
        if kind == "data" or producer_id < 0:
            batches.append(Batch(at, at + size - 1, producer_id, epochs.get(producer_id, -1)))
            at += size
        else:
            epochs[producer_id] += kind == "fence"
            ends = {"commit": Marker.COMMIT, "abort": Marker.ABORT, "fence": Marker.ABORT}
            batches.append(Batch(at, at, producer_id, epochs[producer_id], True, ends.get(kind)))
            at += 1
        at += draw(st.sampled_from([0, 0, 0, 1, 7]))
    return batches


@given(logs())
def test_each_record_is_decided_by_the_next_marker_of_its_producer(batches: list[Batch]) -> None:
    assert visible(batches) == reference(batches)


@given(logs(), st.data())
def test_where_the_reading_begins_changes_nothing_behind_it(batches: list[Batch], data: st.DataObject) -> None:
    """From any place at or before the LSO."""
    decisions = Decisions()
    for batch in batches:
        decisions.take(batch)
    stable = min(decisions.open.values(), default=batches[-1].last + 1 if batches else 0)
    start = data.draw(st.integers(0, stable))
    rest = [batch for batch in batches if batch.last >= start]
    whole, opened = visible(batches)
    reached = {offset for batch in rest for offset in range(batch.first, batch.last + 1)}
    assert visible(rest) == (whole & reached, opened)


def test_a_fences_marker_ends_the_transaction_of_the_epoch_before() -> None:
    fenced = [Batch(0, 0, 5, 1), marker(1, 5, Marker.ABORT, epoch=2), Batch(2, 2, 5, 2), marker(3, 5, Marker.COMMIT, 2)]
    assert visible(fenced) == ({2}, set())


def test_ranges_that_are_hidden() -> None:
    hidden = HiddenOffsets([(5, 7), (1, 1)])
    assert [offset for offset in range(10) if offset in hidden] == [1, 5, 6, 7]
    assert 3 not in HiddenOffsets([])


def built(base: int, *, codec: int = 0, producer_id: int = 9, transactional: bool = True, count: int = 3) -> bytes:
    builder = DefaultRecordBatchBuilder(2, codec, transactional, producer_id, 2, 0, 1 << 20)
    for number in range(count):
        builder.append(number, number, b"key", b"value" * 50, [])
    data = bytearray(builder.build())
    data[0:8] = struct.pack(">q", base)
    return bytes(data)


def control(base: int, kind: int) -> bytes:
    key = struct.pack(">hh", 0, kind)
    record = bytes([0, 0, 0, len(key) * 2]) + key + bytes([12]) + bytes(6) + bytes([0])
    record = bytes([len(record) * 2]) + record
    header = struct.pack(">IhiqqqhiI", 0, 0x30, 0, 0, 0, 9, 2, -1, 1)
    body = struct.pack(">ib", 0, 2) + header + record
    return struct.pack(">qi", base, len(body)) + body


def test_headers_and_markers_are_read_from_the_bytes_of_a_fetch() -> None:
    data = built(10) + control(13, 1) + built(14, codec=1) + built(17, transactional=False) + control(20, 0)
    assert list(parse(data)) == [
        Batch(10, 12, 9, 2, records=3, timestamp_ms=2, sequence=0),
        Batch(13, 13, 9, 2, True, Marker.COMMIT, 1, 0),
        Batch(14, 16, 9, 2, records=3, timestamp_ms=2, sequence=0),
        Batch(17, 19, -1, 2, records=3, timestamp_ms=2, sequence=0),
        Batch(20, 20, 9, 2, True, Marker.ABORT, 1, 0),
    ]


def test_a_batch_that_is_cut_off_is_left_out() -> None:
    whole, rest = built(10), built(13)

    def cuts() -> Iterator[int]:
        yield from range(len(rest))

    assert all(
        list(parse(whole + rest[:size])) == [Batch(10, 12, 9, 2, records=3, timestamp_ms=2, sequence=0)]
        for size in cuts()
    )


def test_a_control_record_of_another_kind_ends_nothing() -> None:
    assert [each.marker for each in parse(control(5, 7))] == [None]
