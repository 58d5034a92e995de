"""Fetched record batches: their records are those that another implementation reads, and obstacles are seen."""

import struct
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch

from ringfence.connectors.api import ConnectorError
from ringfence.connectors.api.fetching import NotFetchable
from ringfence.fencing.fetching.fetched_batches import (
    APPEND_TIME,
    GAPS,
    LARGE,
    MIDST,
    NO_TIME,
    SMALL,
    Fetched,
    select_committed,
    split_batches,
)
from ringfence.fencing.transactions.record_batches import RecordBatch, encode
from tests.support.fetched import run_of, stored

NOW = 1_700_000_000_000


def marker(first: int, producer_id: int, kind: int) -> bytes:
    """A control batch: 0 aborts, 1 commits."""
    batch = encode([bytes(6)], NOW, [struct.pack(">hh", 0, kind)])
    return stored(batch, first, producer_id, attributes=0x30)


def only(data: bytes, start: int = 0, most_bytes: int = 2**31) -> Fetched:
    (batch,) = split_batches("t", 3, data, start, most_bytes)
    return batch


rows = st.tuples(
    st.none() | st.binary(max_size=200),
    st.none() | st.binary(max_size=70),
    st.integers(1, NOW),
    st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=5)), max_size=3),
)


@given(
    st.lists(rows, min_size=1, max_size=100),
    st.integers(0, 2**62),
    st.sampled_from(["none", "gzip", "snappy", "lz4", "zstd"]),
)
def test_records_are_what_another_implementation_reads(records: list[Any], first: int, codec: str) -> None:
    values, keys, times, headers = (list(column) for column in zip(*records, strict=True))
    data = stored(encode(values, NOW, keys, times, headers, codec), first)
    run = run_of(only(data))
    assert (run.topic, run.partition) == ("t", 3)
    assert [each or [] for each in run.headers] == headers
    theirs: list[Any] = list(DefaultRecordBatch(data)) if codec in ("none", "gzip") else []
    for number, each in enumerate(theirs):
        assert (run.keys[number], run.values[number], run.times[number], run.offsets[number]) == (
            each.key, each.value, each.timestamp, each.offset,
        )  # fmt: skip
    assert (run.values, run.keys, run.times) == (values, keys, times)
    assert run.offsets == list(range(first, first + len(records)))


@given(
    st.integers(50, 300), st.integers(0, 2**62), st.integers(0, 2**31 - 1), st.sampled_from(["none", "gzip", "zstd"])
)
def test_a_whole_batch_has_the_right_checksum(count: int, producer_id: int, sequence: int, codec: str) -> None:
    batch = encode([b"%d" % number for number in range(count)], NOW, compression=codec)
    passed = RecordBatch.of(only(stored(batch, 1000)).encode_for("other"), "lz4")
    assert passed.attributes == (batch.attributes or 3)  # what is not compressed is, if the producer does that
    data = passed.head(producer_id, 7, sequence) + passed.data
    assert DefaultRecordBatch(data).validate_crc()
    assert codec == "none" or passed.data == batch.data


@given(
    st.lists(rows, min_size=1, max_size=100),
    st.sampled_from(["none", "zstd"]),
    st.integers(0, 99),
    st.lists(st.tuples(st.text(max_size=3), st.none() | st.just(bytes(3)) | st.binary(max_size=70)), max_size=2),
)
def test_headers_are_seen_in_whatever_record_they_are(
    records: list[Any], codec: str, at: int, headers: list[tuple[str, bytes | None]]
) -> None:
    values, keys, times, _ = (list(column) for column in zip(*records, strict=True))
    of_all: list[Any] = [[] for _ in records]
    of_all[at % len(records)] = headers
    batch = only(stored(encode(values, NOW, keys, times, of_all, codec), 0))
    assert batch.has_headers == bool(headers)
    assert not only(stored(encode(values, NOW, keys, times, None, codec), 0)).has_headers


@pytest.mark.parametrize("size", [10, 100, 9000, 2_100_000])
def test_lengths_of_any_number_of_bytes_are_passed_over(size: int) -> None:
    plain = encode([bytes(size)] * 3, NOW, [bytes(size)] * 3, [1, NOW, 2])
    assert not only(stored(plain, 0)).has_headers
    marked = encode([bytes(size)] * 3, NOW, [bytes(size)] * 3, [1, NOW, 2], [None, None, [("h", b"\0")]])
    assert only(stored(marked, 0)).has_headers


@given(st.binary(min_size=1, max_size=60), st.integers(1, 5))
def test_what_is_no_record_is_refused_or_has_headers(data: bytes, count: int) -> None:
    """By looking for headers no later than by taking the records apart."""
    batch = only(stored(RecordBatch(count, NOW, NOW, 0, data), 0))
    try:
        has_headers = batch.has_headers
    except ConnectorError:
        return
    if not has_headers:
        assert len(run_of(batch).values) == count


LONG = [b"%d" % number for number in range(100)]


@pytest.mark.parametrize(
    ("fields", "start", "most_bytes", "obstacle"),
    [
        ({}, 0, 2**31, ""),
        ({"leader_epoch": 9, "attributes": 0x40}, 1000, 2**31, ""),
        ({}, 1001, 2**31, MIDST),
        ({}, 1099, 2**31, MIDST),
        ({"last_delta": 100}, 0, 2**31, GAPS),
        ({"attributes": 0x08}, 0, 2**31, APPEND_TIME),
        ({"first_ms": -1}, 0, 2**31, NO_TIME),
        ({"first_ms": 0}, 0, 2**31, NO_TIME),
        ({}, 0, 500, LARGE),
    ],
)
def test_obstacles(fields: dict[str, int], start: int, most_bytes: int, obstacle: str) -> None:
    assert only(stored(encode(LONG, NOW), 1000, **fields), start, most_bytes).obstacle == obstacle


@pytest.mark.parametrize(("values", "obstacle"), [([b"x"] * 49, SMALL), ([b"x"] * 50, ""), ([bytes(20_000)], "")])
def test_few_records_are_joined_unless_they_are_long(values: Sequence[bytes], obstacle: str) -> None:
    assert only(stored(encode(values, NOW), 0)).obstacle == obstacle


def test_records_before_the_position_are_left_out() -> None:
    run = run_of(only(stored(encode(LONG, NOW), 1000), 1090))
    assert run.offsets == list(range(1090, 1100))
    assert run.values == LONG[90:]
    assert list(split_batches("t", 0, stored(encode(LONG, NOW), 1000), 1100, 1000)) == []


def test_an_incomplete_last_batch_is_left_for_the_next_answer() -> None:
    one, other = stored(encode(LONG, NOW), 0), stored(encode(LONG, NOW), 100)
    for size in range(0, len(other), 7):
        assert len(list(split_batches("t", 0, one + other[:size], 0, 1000))) == 1


def test_the_formats_before_kafka_0_11_are_left_to_a_consumer() -> None:
    old = bytearray(stored(encode(LONG, NOW), 0))
    old[16] = 1
    with pytest.raises(NotFetchable):
        list(split_batches("t", 0, bytes(old), 0, 1000))


@given(st.integers(0, 2000), st.integers(0, 255))
def test_a_changed_byte_is_noticed_by_the_checksum(at: int, byte: int) -> None:
    good = stored(encode([b"%06d" % number for number in range(150)], NOW), 0)
    at = 61 + at % (len(good) - 61)
    bad = bytearray(good)
    bad[at] = byte
    if bad == good:
        return
    batch = only(bytes(bad))
    with pytest.raises(ConnectorError, match="damaged"):
        batch.check()
    assert RecordBatch.of(batch.encode_for("t")).is_damaged
    passed = RecordBatch.of(batch.encode_for("t"))
    assert not DefaultRecordBatch(passed.head(1, 1, 1) + passed.data).validate_crc()


Item = tuple[str, int, int]


@given(st.data())
def test_only_committed_transactions_are_seen(data: st.DataObject) -> None:
    """Against a log that is told what each batch is. The leader's list has the transactions that overlap an answer."""
    log: list[tuple[bytes, int, int, bool | None]] = []  # bytes, first, last, whether it is visible (None: a marker)
    open_firsts: dict[int, int] = {}
    aborted: list[tuple[int, int, int]] = []
    pending: dict[int, list[int]] = {}
    offset = 0
    for kind, producer in data.draw(st.lists(st.tuples(st.sampled_from("wwpac"), st.integers(1, 3)), max_size=30)):
        if kind == "w":
            log.append((stored(encode([b"x", b"y"], NOW), offset, producer), offset, offset + 1, True))
            open_firsts.setdefault(producer, offset)
            pending.setdefault(producer, []).append(len(log) - 1)
            offset += 2
        elif kind == "p":
            log.append((stored(encode([b"z"], NOW), offset, producer, attributes=0), offset, offset, True))
            offset += 1
        elif producer in open_firsts:
            log.append((marker(offset, producer, int(kind == "c")), offset, offset, None))
            first, written = open_firsts.pop(producer), pending.pop(producer)
            if kind == "a":
                aborted.append((producer, first, offset))
                for number in written:
                    log[number] = (*log[number][:3], False)
            offset += 1
    stable = min(open_firsts.values(), default=offset)
    log = [each for each in log if each[1] < stable]
    start = data.draw(st.integers(0, max(0, stable - 1)))
    batches = list(split_batches("t", 0, b"".join(each[0] for each in log if each[2] >= start), start, 2**31))
    told = data.draw(st.permutations([(producer, first) for producer, first, last in aborted if last >= start]))
    expected = [first for _, first, last, visible in log if visible and last >= start]
    assert [batch.first for batch in select_committed(batches, told)] == expected
    uncommitted = [first for _, first, last, visible in log if visible is not None and last >= start]
    assert [batch.first for batch in select_committed(batches, ())] == uncommitted
