"""The hot path: what goes to the producer, in which order, also where its queue is full."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringfence.connectors.api import (
    ConnectorError,
    OffsetRecord,
    RecordBatch,
    SerializedRecords,
    SourceRecord,
)
from ringfence.connectors.api.records import MixedBatch
from ringfence.connectors.api.schemas import INT64, STRING
from ringfence.connectors.columns import Column
from ringfence.fencing.offsets.record_counts import RecordCounts
from ringfence.fencing.records.prepared_batch import GatheredOffsets
from ringfence.fencing.records.record_path import RecordPath
from ringfence.fencing.transactions.record_columns import Record, RecordColumns
from tests.support.upper_transform import Upper, record


class Raw(Upper):
    raw = True
    transforms = False


class Queue:
    """Takes columns, and knows the records in them."""

    def __init__(self) -> None:
        self.taken: list[Record] = []

    def produce(self, columns: RecordColumns) -> None:
        self.taken += columns.records()


class Schemas(Upper):
    """Tells what it was told of the values."""

    transforms = False

    def key(self, topic: str, value: object, schema: object = None) -> bytes | None:
        return None if schema is None else f"{value} is {schema}".encode()

    value = key


def test_a_record_s_schemas_reach_the_converters_also_of_a_null() -> None:
    path, queue, offsets = RecordPath(Schemas()), Queue(), GatheredOffsets()
    batch = [record("v", 1, key_schema=INT64), record("v", 2, key="k", value_schema=STRING), record(None, 3)]
    path.send(path.prepare(batch), queue.produce, offsets)
    assert [call[1:3] for call in queue.taken] == [
        (None, b"None is Schema(int64)"),
        (b"v is Schema(string)", None),
        (None, None),
    ]


def test_single_records_are_converted_and_produced_in_order() -> None:
    path, queue, offsets = RecordPath(Upper()), Queue(), GatheredOffsets()
    batch = [
        record("one", 1),
        record("two", 2, key="k", timestamp=7),
        record("three", 3, headers=[("h", 1)], partition=4),
        record(None, 4, key="k"),
    ]

    ready = path.prepare(batch)
    path.send(ready, queue.produce, offsets)

    assert ready.count == 4
    assert queue.taken == [
        ("t", b"ONE", None, -1, 0, None),
        ("t", b"TWO", b"K", -1, 7, None),
        ("t", b"THREE", None, 4, 0, [("h", b"1")]),
        ("t", None, b"K", -1, 0, None),
    ]
    assert path.bytes == len("onetwothree")
    assert offsets.take() == [({"file": "a"}, {"at": 4})]


def test_a_dropped_record_still_moves_the_offset() -> None:
    path, queue, offsets = RecordPath(Upper()), Queue(), GatheredOffsets()

    ready = path.prepare([record("drop", 1), record("drop", 2)])
    path.send(ready, queue.produce, offsets)

    assert ready.count == 0
    assert queue.taken == []
    assert offsets.take() == [({"file": "a"}, {"at": 2})]


def test_the_newest_offset_of_each_source_partition_is_kept() -> None:
    path, queue, offsets = RecordPath(Upper()), Queue(), GatheredOffsets()
    batch = [record("x", 1, "a"), record("x", 5, "b"), record("x", 2, "a")]

    path.send(path.prepare(batch), queue.produce, offsets)

    assert offsets.take() == [({"file": "a"}, {"at": 2}), ({"file": "b"}, {"at": 5})]


def test_nothing_is_gathered_before_the_batch_is_sent() -> None:
    path, offsets = RecordPath(Upper()), GatheredOffsets()

    path.prepare([record("x", 1)])

    assert not offsets
    assert path.bytes == 0


def test_a_batch_of_ready_bytes_goes_out_whole() -> None:
    values: list[bytes | None] = [b"%d" % number for number in range(7)]
    for keys in (None, [b"k"] * 7):
        for partition in (None, 3):
            path, columns = RecordPath(Raw()), list[RecordColumns]()
            batch = RecordBatch({"file": "a"}, {"at": 7}, "t", values, keys, partition)
            ready = path.prepare(batch)
            path.send(ready, columns.append, GatheredOffsets())
            assert ready.count == 7
            (whole,) = columns
            assert (whole.values, whole.keys, whole.partition) == (values, keys, -1 if partition is None else partition)


partitions = st.lists(st.tuples(st.sampled_from("ab"), st.integers(-1, 2)), max_size=80)


@given(partitions)
def test_the_records_of_each_topic_and_partition_keep_their_order(places: list[tuple[str, int]]) -> None:
    """The partitioner may choose any partition: a record without one keeps its order with all others of its topic."""
    path = RecordPath(Raw())
    path.keeps_rows = True
    values: list[bytes | None] = [b"%d" % number for number in range(len(places))]
    mixed = MixedBatch([], [topic for topic, _ in places], values, partitions=[place for _, place in places])
    single = [
        SourceRecord({}, {}, topic, number, partition=None if place < 0 else place)
        for number, (topic, place) in enumerate(places)
    ]
    for batch in (mixed, single):
        prepared = path.prepare(batch)
        assert prepared.count == len(places)
        went = [
            (each[0], each[3], row, each[1])
            for columns in prepared.columns
            for each, row in zip(columns.records(), columns.rows or (), strict=True)
        ]
        assert sorted(row for _, _, row, _ in went) == list(range(len(places)))
        for topic, place, row, value in went:
            assert (topic, place, value) == (*places[row], values[row])
        for at, (topic, place, row, _) in enumerate(went):
            for other_topic, other, earlier, _ in went[:at]:
                if other_topic == topic and (other == place or -1 in (other, place)):
                    assert earlier < row


def test_a_mixed_batch_counts_what_was_left_out() -> None:
    path, queue = RecordPath(Raw()), Queue()
    batch = MixedBatch([({"file": "a"}, {"at": 7})], ["t", "t", "dead"], [b"1", b"2", b"bad"], skipped=4, letters=1)
    prepared = path.prepare(batch)
    path.send(prepared, queue.produce, GatheredOffsets())
    assert prepared.counts == RecordCounts(2, skipped=3, dead_letters=1)


def test_a_batch_of_ready_bytes_is_refused_where_bytes_would_change() -> None:
    with pytest.raises(ConnectorError, match="raw_batches"):
        RecordPath(Upper()).prepare(RecordBatch({}, {}, "t", [b"x"]))


class Known:
    """Converters that a task may ask for."""

    key = value = headers = None


class Untouched(Upper):
    transforms = False
    converters = Known()

    @property
    def column(self) -> Callable[[Column], list[bytes | None] | None]:  # type: ignore[override] # by column, too
        return lambda column: [self.value(column.topic, value) for value in column.values]


def serialized(*values: bytes | None, offset: int, source: str = "a") -> SerializedRecords:
    return SerializedRecords({"file": source}, {"at": offset}, "t", values, [b"k"] * len(values), [("h", b"1")])


def test_serialized_records_go_out_as_they_are_in_order_with_others() -> None:
    path, queue, offsets = RecordPath(Untouched()), Queue(), GatheredOffsets()
    batch = [
        serialized(b"one", None, offset=2),
        record("two", 3),
        OffsetRecord({"file": "a"}, {"at": 4}),
        *(record(f"n{number}", 5 + number) for number in range(4)),
        serialized(b"three", offset=9),
    ]
    path.send(path.prepare(batch), queue.produce, offsets)
    assert [call[1] for call in queue.taken] == [b"one", None, b"TWO", b"N0", b"N1", b"N2", b"N3", b"three"]
    assert queue.taken[0][:3] == ("t", b"one", b"k")
    assert queue.taken[0][5] == [("h", b"1")]
    assert offsets.take() == [({"file": "a"}, {"at": 9})]
    assert path.bytes == len("onetwoN0N1N2N3three")


def test_serialized_records_of_several_source_partitions_each_move_theirs() -> None:
    path, queue, offsets = RecordPath(Untouched()), Queue(), GatheredOffsets()
    batch = [serialized(b"x", offset=1), serialized(b"y", offset=5, source="b"), serialized(b"z", offset=2)]
    path.send(path.prepare(batch), queue.produce, offsets)
    assert offsets.take() == [({"file": "a"}, {"at": 2}), ({"file": "b"}, {"at": 5})]


@pytest.mark.parametrize("convert", [Upper(), Raw()])
def test_serialized_records_are_refused_where_records_must_be_changed(convert: Upper) -> None:
    with pytest.raises(ConnectorError, match=r"context\.converters"):
        RecordPath(convert).prepare([serialized(b"x", offset=1)])


def test_serialized_records_go_to_no_forbidden_topic() -> None:
    path = RecordPath(Untouched(), "t")
    with pytest.raises(ConnectorError, match="its own source offsets"):
        path.prepare([serialized(b"x", offset=1)])
