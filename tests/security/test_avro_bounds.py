"""Avro that is larger than its bytes, or deeper than fastavro's C stack. Without the bounds, the first value here ends
the process by SIGSEGV, and the third takes gigabytes.
"""

import io
import json
import struct
import zlib
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringfence.connectors.sdk.avro import container
from ringfence.connectors.sdk.avro.bounds import DEEPEST, MOST_ELEMENTS, BeyondBounds, Bounds, check_json
from ringfence.connectors.sdk.avro.container import open_blocks

LIST = {"type": "record", "name": "N", "fields": [{"name": "n", "type": ["null", "N"]}]}
TREE = {"type": "record", "name": "N", "fields": [{"name": "n", "type": {"type": "array", "items": "N"}}]}
EMPTY = {"type": "record", "name": "E", "fields": []}


def bounds_of(schema: Any) -> Bounds:
    check_json(schema)
    named: dict[str, Any] = {}
    return Bounds(fastavro.parse_schema(schema, named_schemas=named), named)


def number(value: int) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, "long", value)
    return out.getvalue()


def laughs(levels: int) -> Any:
    """Records of which each holds two of the one before: 2 to the power of `levels` nulls, without a byte."""
    schema: Any = {"type": "record", "name": "R0", "fields": [{"name": "a", "type": "null"}]}
    for level in range(1, levels):
        fields = [{"name": "a", "type": schema}, {"name": "b", "type": f"R{level - 1}"}]
        schema = {"type": "record", "name": f"R{level}", "fields": fields}
    return schema


VALUES: dict[str, tuple[Any, bytes]] = {
    "a list of 8,000 records": (LIST, b"\x02" * 8000 + b"\x00"),
    "a tree of 8,000 arrays": (TREE, b"\x02" * 8000 + b"\x00" * 8001),
    "200 million nulls": ({"type": "array", "items": "null"}, number(200_000_000) + b"\x00"),
    "200 million nulls, with a size": ({"type": "array", "items": "null"}, number(-200_000_000) + b"\x00\x00"),
    "many blocks of nulls": ({"type": "array", "items": "null"}, (number(50_000)) * 50 + b"\x00"),
    "empty records": ({"type": "array", "items": EMPTY}, number(1 << 40)),
    "fixed values without bytes": (
        {"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}},
        number(1 << 40),
    ),
    "arrays of arrays of nulls": (
        {"type": "array", "items": {"type": "array", "items": "null"}},
        number(9) + (number(90_000) + b"\x00") * 9 + b"\x00",
    ),
    "records that double": (laughs(60), b""),
    "more integers than are shown": ({"type": "array", "items": "int"}, number(200_000) + b"\x00" * 200_001),
    "a map with more entries than bytes": ({"type": "map", "values": "null"}, number(1 << 40) + b"\x02a"),
    "a string with a negative length": (
        {"type": "array", "items": ["null", "string"]},
        b"\x02\x02\x01" + b"\x00" * MOST_ELEMENTS,
    ),
    "a string that ends too early": ({"type": "array", "items": "string"}, number(1) + number(50) + b"abc"),
    "a fixed value that ends too early": (
        {"type": "record", "name": "R", "fields": [{"name": "a", "type": {"type": "fixed", "name": "F", "size": 9}}]},
        b"abc",
    ),
    "a number of 1,400 bits": ({"type": "array", "items": "int"}, number(1) + b"\xff" * 200 + b"\x01\x00"),
    "an array that ends too early": ({"type": "array", "items": ["null", "string"]}, number(MOST_ELEMENTS - 1)),
}


@pytest.mark.parametrize("name", VALUES)
def test_a_value_beyond_bounds_is_refused(name: str) -> None:
    schema, data = VALUES[name]
    bounds = bounds_of(schema)
    with pytest.raises(BeyondBounds):
        bounds.walk(data, 0, MOST_ELEMENTS)
    if (
        name != "a string with a negative length"
        and len(data) < MOST_ELEMENTS / 10
        and bounds.most_per_byte is not None
    ):
        return  # fastavro refuses it itself, before it takes memory
    with pytest.raises(BeyondBounds):
        bounds.check(data)


def named_chain(length: int) -> Any:
    """Records side by side, each with the one before in it: deeper than the JSON."""
    fields: list[Any] = [
        {"name": "f0", "type": {"type": "record", "name": "R0", "fields": [{"name": "a", "type": "int"}]}}
    ]
    for each in range(1, length):
        inner = [{"name": "a", "type": f"R{each - 1}"}]
        fields.append({"name": f"f{each}", "type": {"type": "record", "name": f"R{each}", "fields": inner}})
    return {"type": "record", "name": "Root", "fields": fields}


def nested_arrays(levels: int) -> Any:
    schema: Any = "int"
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return schema


SCHEMAS: dict[str, Any] = {
    "arrays in arrays": nested_arrays(5000),
    "a few too many arrays": nested_arrays(DEEPEST + 1),
    "a chain of names": named_chain(3000),
    "a record without end": {"type": "record", "name": "N", "fields": [{"name": "n", "type": "N"}]},
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_beyond_bounds_is_refused(name: str) -> None:
    with pytest.raises(BeyondBounds):
        bounds_of(SCHEMAS[name])


def test_each_check_of_a_schema_holds_alone() -> None:
    """The JSON is checked before fastavro parses it, the schema after it, which may come from elsewhere."""
    with pytest.raises(BeyondBounds, match="nested too deeply"):
        check_json(nested_arrays(5000))
    with pytest.raises(BeyondBounds, match="nested too deeply, or has too many types"):
        Bounds(nested_arrays(2 * DEEPEST + 50), {})
    many = [{"name": f"f{number}", "type": "int"} for number in range(25_000)]
    with pytest.raises(BeyondBounds, match="too many types"):
        Bounds({"type": "record", "name": "R", "fields": many}, {})


def test_what_people_have_is_within_bounds() -> None:
    assert bounds_of(nested_arrays(DEEPEST)).most_per_byte is not None
    assert bounds_of(named_chain(DEEPEST - 2)).most_per_byte is not None
    bounds = bounds_of(LIST)
    bounds.check(b"\x02" * (DEEPEST - 1) + b"\x00")
    with pytest.raises(BeyondBounds):
        bounds.check(b"\x02" * DEEPEST + b"\x00")
    bounds_of({"type": "array", "items": "null"}).check(number(MOST_ELEMENTS - 1) + b"\x00")


PLAIN = ["null", "boolean", "int", "long", "float", "double", "string", "bytes"]
UNIONS = [["null", "string"], ["int", "null", "bytes"]]
ARRAYS = [{"type": "array", "items": items} for items in ("null", "string", {"type": "array", "items": "boolean"})]
FIELDS = st.sampled_from([*PLAIN, *UNIONS, *ARRAYS, {"type": "map", "values": ["null", "long"]}])


@given(st.lists(FIELDS, max_size=5), st.data())
def test_the_walk_ends_where_fastavro_ends(types: list[Any], data: st.DataObject) -> None:
    fields = [{"name": f"f{at}", "type": type_} for at, type_ in enumerate(types)]
    schema = {"type": "record", "name": "R", "fields": fields}
    raw = data.draw(st.binary(max_size=40))
    stream = io.BytesIO(raw)
    named: dict[str, Any] = {}
    parsed = fastavro.parse_schema(schema, named_schemas=named)
    try:
        end = Bounds(parsed, named).walk(raw, 0, 1000)
    except BeyondBounds:
        return
    try:
        fastavro.schemaless_reader(stream, parsed, None)
    except (ValueError, EOFError):  # bytes that are not UTF-8
        return
    assert stream.tell() == end


def file_of(schema: Any, *blocks: tuple[int, bytes], codec: str = "null") -> io.BytesIO:
    sync = b"s" * 16
    meta = {"avro.schema": json.dumps(schema).encode(), "avro.codec": codec.encode()}
    header = number(len(meta)) + b"".join(
        number(len(part)) + part for key, value in meta.items() for part in (key.encode(), value)
    )
    body = b"".join(number(count) + number(len(data)) + data + sync for count, data in blocks)
    return io.BytesIO(b"Obj\x01" + header + b"\x00" + sync + body)


def records_of(file: io.BytesIO) -> list[Any]:
    _, blocks = open_blocks(file)
    return [record for _, records in blocks for record in records]


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush()


ROW = {"type": "record", "name": "Row", "fields": [{"name": "a", "type": "long"}]}
FILES = {
    "a block with more records than bytes": (ROW, (1 << 60, b"\x02\x02"), "null"),
    "a block of records without bytes": (EMPTY, (1 << 60, b""), "null"),
    "a negative count": (ROW, (-1, b"\x02"), "null"),
    "a deflated bomb": (ROW, (1, raw_deflate(b"\x00" * (container.MOST_BYTES + 1))), "deflate"),
    "an array of empty records": (
        {"type": "record", "name": "R", "fields": [{"name": "a", "type": {"type": "array", "items": EMPTY}}]},
        (1, number(1 << 40) + b"\x00"),
        "null",
    ),
    "a schema that contains itself": (LIST, (1, b"\x02" * 8000 + b"\x00"), "null"),
    "a schema that contains itself, and a small value": (LIST, (1, b"\x00"), "null"),
    "a deep schema": (nested_arrays(300), (1, b""), "null"),
    "an unknown codec": (ROW, (1, b"\x02"), "zip"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_hostile_file_is_refused(name: str) -> None:
    schema, block, codec = FILES[name]
    with pytest.raises(container.ERRORS):
        records_of(file_of(schema, block, codec=codec))


def test_a_header_without_end_is_refused() -> None:
    entries = b"".join(number(5) + b"k%04d" % each + number(0) for each in range(2_000))
    schema = number(11) + b"avro.schema" + number(6) + b'"long"'
    with pytest.raises(BeyondBounds, match="too many entries"):
        open_blocks(io.BytesIO(b"Obj\x01" + number(2_001) + schema + entries + b"\x00" + b"s" * 16))


def test_a_block_that_only_claims_its_size_takes_no_memory() -> None:
    file = file_of(ROW)
    file.seek(0, io.SEEK_END)
    file.write(number(1) + number(1 << 40))
    file.seek(0)
    with pytest.raises(BeyondBounds):
        records_of(file)


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz"])
def test_a_whole_file_is_read_as_before(codec: str) -> None:
    rows = [{"a": each, "b": None if each % 3 else str(each)} for each in range(5000)]
    fields = [{"name": "a", "type": "long"}, {"name": "b", "type": ["null", "string"]}]
    file = io.BytesIO()
    fastavro.writer(file, {"type": "record", "name": "R", "fields": fields}, rows, codec=codec)
    file.seek(0)
    assert records_of(file) == rows


def test_records_of_a_large_block_are_read_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container, "MOST_ELEMENTS", 500)
    rows = [{"a": list(range(each % 130))} for each in range(300)]
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": {"type": "array", "items": "int"}}]}
    file = io.BytesIO()
    fastavro.writer(file, schema, rows, sync_interval=1 << 20)
    file.seek(0)
    assert records_of(file) == rows


def test_snappy_zstandard_and_lz4_are_read_with_arrow() -> None:
    pa = pytest.importorskip("pyarrow")
    data = b"".join(number(each) for each in range(1000))
    codecs = {
        "snappy": pa.compress(data, codec="snappy", asbytes=True) + b"\x00" * 4,
        "zstandard": pa.compress(data, codec="zstd", asbytes=True),
        "lz4": struct.pack("<I", len(data)) + pa.compress(data, codec="lz4_raw", asbytes=True),
    }
    for codec, packed in codecs.items():
        assert records_of(file_of(ROW, (1000, packed), codec=codec)) == [{"a": each} for each in range(1000)], codec
    bomb = pa.compress(b"\x00" * (container.MOST_BYTES + 1), codec="zstd", asbytes=True)
    with pytest.raises(BeyondBounds):
        records_of(file_of(ROW, (1, bomb), codec="zstandard"))
    with pytest.raises(BeyondBounds):
        records_of(file_of(ROW, (1, b"\xff\xff\xff\xff\x0f" + b"\x00" * 9), codec="snappy"))
