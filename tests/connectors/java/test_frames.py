"""Batches as host/Packer.java writes them."""

import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringfence.connectors.java.channel import BATCH, HEAD, JSON, decode_batch, encode

COMMIT, ABORT, KEYS, PARTITIONS, TIMES, HEADERS, TOPICS = 1, 2, 4, 8, 16, 32, 64
Record = tuple[str, bytes | None, bytes | None, int, int, list[tuple[str, bytes | None]] | None]

texts = st.text(max_size=8)
blobs = st.none() | st.binary(max_size=20)
headers = st.none() | st.lists(st.tuples(texts, blobs), min_size=1, max_size=3)
records = st.lists(
    st.tuples(st.sampled_from(["a", "b-topic", "ü"]), blobs, blobs, st.integers(-1, 9), st.integers(0, 2**60), headers),
    max_size=30,
)


def number(value: int) -> bytes:
    return struct.pack("<i", value)


def blob(value: bytes | None) -> bytes:
    return number(-1) if value is None else number(len(value)) + value


def pack(given_: list[Record], offsets: object, flags: int) -> bytes:
    """What Packer.java does, in the plainest way."""
    names = list(dict.fromkeys(record[0] for record in given_))
    sets = list({repr(record[5]): record[5] for record in given_ if record[5] is not None}.values())
    out = struct.pack("<QIIII", 7, len(given_), flags, 3, 2) + number(len(names))
    out += b"".join(blob(name.encode()) for name in names) + blob(json.dumps(offsets).encode())
    if flags & TOPICS:
        out += b"".join(number(names.index(record[0])) for record in given_)
    if flags & PARTITIONS:
        out += b"".join(number(record[3]) for record in given_)
    if flags & TIMES:
        out += b"".join(struct.pack("<q", record[4]) for record in given_)
    out += b"".join(number(-1 if record[1] is None else len(record[1])) for record in given_)
    if flags & KEYS:
        out += b"".join(number(-1 if record[2] is None else len(record[2])) for record in given_)
    if flags & HEADERS:
        out += b"".join(number(-1 if record[5] is None else sets.index(record[5])) for record in given_)
    out += b"".join(record[1] or b"" for record in given_)
    if flags & KEYS:
        out += b"".join(record[2] or b"" for record in given_)
    if flags & HEADERS:
        out += number(len(sets))
        for one in sets:
            out += number(len(one)) + b"".join(blob(name.encode()) + blob(value) for name, value in one)
    return out


@given(records, st.sampled_from([0, COMMIT, ABORT]))
def test_every_column_comes_back(given_: list[Record], ending: int) -> None:
    offsets = [[{"file": "ä"}, {"position": 2**60}], [{"file": "b"}, None]]
    frame = decode_batch(pack(given_, offsets, KEYS | PARTITIONS | TIMES | HEADERS | TOPICS | ending))
    batch = frame.batch
    assert (frame.number, batch.skipped, batch.letters) == (7, 3, 2)
    assert (frame.commits, frame.aborts) == (ending == COMMIT, ending == ABORT)
    assert [list(pair) for pair in batch.offsets] == offsets
    assert list(batch.topics) == [record[0] for record in given_]
    assert batch.values == [record[1] for record in given_]
    assert batch.keys == [record[2] for record in given_]
    assert batch.partitions == [record[3] for record in given_]
    assert batch.timestamps == [record[4] for record in given_]
    assert batch.headers == [record[5] for record in given_]


def test_columns_that_are_not_there() -> None:
    given_: list[Record] = [("a", b"one", None, -1, 0, None), ("a", None, None, -1, 0, None)]
    batch = decode_batch(pack(given_, [], 0)).batch
    assert (batch.topics, batch.values) == ("a", [b"one", None])
    assert (batch.keys, batch.partitions, batch.timestamps, batch.headers) == (None, None, None, None)


def test_offsets_without_records_are_a_batch() -> None:
    batch = decode_batch(pack([], [[{"a": 1}, {"b": 2}]], 0)).batch
    assert len(batch) == 0
    assert batch


@pytest.mark.parametrize("cut", [1, 5, 30])
def test_a_batch_that_is_cut_off_is_refused(cut: int) -> None:
    whole = pack([("a", b"some value", b"key", 1, 1, [("h", b"x")])], [[{"a": 1}, {"b": 2}]], KEYS | HEADERS)
    with pytest.raises((ValueError, struct.error)):
        decode_batch(whole[:-cut])


def test_a_message_is_one_frame() -> None:
    data = encode({"op": "taken"})
    size, kind = HEAD.unpack_from(data)
    assert (size, kind) == (len(data) - 4, JSON)
    assert json.loads(data[HEAD.size :]) == {"op": "taken"}
    assert BATCH != JSON
