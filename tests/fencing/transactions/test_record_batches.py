"""Encoded batches are what kafka-python, another implementation, reads from them; a real broker takes each codec."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringfence.fencing.transactions import record_batches
from ringfence.fencing.transactions.compression import CODECS
from ringfence.fencing.transactions.record_batches import RecordBatch, encode, split
from tests.support.encoded_batches import read

NOW = 1_800_000_000_000
maybe_bytes = st.none() | st.binary(max_size=300)
headers = st.none() | st.lists(st.tuples(st.text(max_size=10), maybe_bytes), max_size=3)
record = st.tuples(maybe_bytes, maybe_bytes, st.integers(-1, 2**42), headers)


@given(
    st.lists(record, min_size=1, max_size=80),
    st.tuples(st.booleans(), st.booleans(), st.booleans()),
    st.tuples(st.integers(0, 2**62), st.integers(0, 2**15 - 1), st.integers(0, 2**31 - 1)),
)
def test_another_implementation_reads_the_same(
    records: list[tuple[bytes | None, bytes | None, int, list[tuple[str, bytes | None]] | None]],
    has: tuple[bool, bool, bool],
    producer: tuple[int, int, int],
) -> None:
    keys, values, times, more = zip(*records, strict=True)
    batch = encode(values, NOW, keys if has[0] else None, times if has[1] else None, more if has[2] else None)
    whole = read(batch, *producer)
    found = list(whole)
    assert [each.value for each in found] == list(values)
    assert [each.key for each in found] == (list(keys) if has[0] else [None] * len(records))
    wanted = [time if time > 0 else NOW for time in times] if has[1] else [NOW] * len(records)
    assert [each.timestamp for each in found] == wanted
    assert whole.max_timestamp == batch.newest_ms == max(wanted)
    assert [list(each.headers) for each in found] == [list(each or ()) if has[2] else [] for each in more]
    assert [each.offset for each in found] == list(range(len(records)))


@pytest.mark.parametrize("count", [1, 63, 64, 65, 8191, 8192, 8193, 20_000])
def test_offset_deltas_of_every_length(count: int) -> None:
    values = [b"%d" % number for number in range(count)]
    assert [each.value for each in read(encode(values, NOW))] == values
    found = list(read(encode(values, NOW, keys=values[::-1])))
    assert [each.key for each in found] == values[::-1]
    assert [each.offset for each in found] == list(range(count))


def test_values_of_one_length_after_each_other() -> None:
    for count in (2, 9000, 5):
        for length in range(6):
            values = [bytes([number % 251]) * length for number in range(count)]
            assert [each.value for each in read(encode(values, NOW))] == values
    assert len(record_batches._BETWEEN) <= record_batches._MOST_LENGTHS


def test_lengths_of_every_width() -> None:
    values = [bytes(size) for size in (0, 63, 64, 8191, 8192, 1_048_575, 1_048_576)]
    assert [each.value for each in read(encode(values, NOW))] == values
    assert [each.key for each in read(encode(values, NOW, keys=values))] == values


def test_tables_stay_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values of millions of different lengths must not fill the memory."""
    monkeypatch.setattr(record_batches, "_MOST_SIZES", 0)
    table = record_batches._Table(b"", b"")
    assert (table[5], table[-1], len(table)) == (b"\x0a", b"\x01", 0)
    assert (record_batches._Sizes()[100], len(record_batches._Sizes())) == (102, 0)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("size", [1, 100, 200_000])
def test_codecs_open_what_they_pack(codec: str, size: int) -> None:
    data = bytes(number * number % 251 for number in range(size))
    for level in (None, 1):
        packed = CODECS[codec].compress(data, level)
        assert CODECS[codec].decompress(packed) == data


@given(st.lists(record, min_size=1, max_size=30), st.sampled_from(["none", *CODECS]))
def test_halves_are_the_whole(
    records: list[tuple[bytes | None, bytes | None, int, list[tuple[str, bytes | None]] | None]], codec: str
) -> None:
    keys, values, times, more = zip(*records, strict=True)
    whole = encode(values, NOW, keys, times, more, codec)
    halves = split(whole)
    if len(records) == 1:
        assert halves is None
        return
    assert halves is not None
    assert sum(each.count for each in halves) == len(records)
    found = [each for half in halves for each in read(_unpacked(half))]
    wanted = list(read(encode(values, NOW, keys, times, more)))
    assert [(e.key, e.value, e.timestamp, e.headers) for e in found] == [
        (e.key, e.value, e.timestamp, e.headers) for e in wanted
    ]
    assert max(each.newest_ms for each in halves) == whole.newest_ms
    for half in halves:
        offsets = [each.offset for each in read(_unpacked(half))]
        assert offsets[0] == 0
        assert all(b == a + 1 for a, b in pairwise(offsets))


def _unpacked(batch: RecordBatch) -> RecordBatch:
    codec = next((each for each in CODECS.values() if each.number == batch.attributes), None)
    data = codec.decompress(batch.data) if codec else batch.data
    return RecordBatch(batch.count, batch.first_ms, batch.newest_ms, 0, data)
