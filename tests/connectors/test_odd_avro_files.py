"""FilesSource on Avro files: every codec and logical type, and damages in the midst of a file."""

import io
import struct
import zlib
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringfence.connectors.api import ConnectorError, DistantDate, DistantTimestamp
from tests.support.examples import examples
from tests.support.file_runs import Committed, config_of, plain, read, read_restarted, reasons, rows, summary

pytestmark = pytest.mark.usefixtures("temporary_roots")

ROW = {"type": "record", "name": "Row", "fields": [{"name": "n", "type": "long"}, {"name": "s", "type": "string"}]}
SYNC = b"0123456789abcdef"


def blocks_of(count: int) -> bytes:
    """Return a file of `count` rows, three in a block."""
    file = io.BytesIO()
    writer = fastavro.write.Writer(file, ROW, sync_marker=SYNC)
    for number in range(count):
        writer.write({"n": number, "s": "text"})
        if number % 3 == 2:
            writer.dump()
    writer.flush()
    return file.getvalue()


def one_column(type: Any, values: Sequence[object]) -> bytes:
    """Return a file of one column. values: as fastavro writes those of Avro's own type."""
    file = io.BytesIO()
    bare = {key: each for key, each in type.items() if key != "logicalType"} if isinstance(type, Mapping) else type
    declared = {"type": "record", "name": "Row", "fields": [{"name": "a", "type": type}]}
    written = {"type": "record", "name": "Row", "fields": [{"name": "a", "type": bare}]}
    fastavro.writer(file, written, [{"a": value} for value in values], sync_marker=SYNC)
    body = file.getvalue()
    body = body[body.index(SYNC) :]
    header = io.BytesIO()
    fastavro.writer(header, declared, [], sync_marker=SYNC)
    return header.getvalue()[: -len(SYNC)] + body


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz", "zstandard", "snappy", "lz4"])
def test_every_codec_needs_no_more_than_the_extra(folder: Path, codec: str) -> None:
    """fastavro asks for cramjam, lz4 and others; Arrow, which Parquet needs, has them."""
    count = 5_000
    file = io.BytesIO()
    rows_written = [{"n": number, "s": "text" * 10} for number in range(count)]
    if codec in ("snappy", "lz4", "zstandard"):
        fastavro.writer(file, ROW, rows_written, sync_marker=SYNC)
        data = compressed(file.getvalue(), codec)
    else:
        fastavro.writer(file, ROW, rows_written, codec=codec)
        data = file.getvalue()
    assert [row[0] for row in rows(read(folder, "a", data, "avro"))] == list(range(count))


def compressed(data: bytes, codec: str) -> bytes:
    """Compress the blocks of a file."""
    source: Any = fastavro.block_reader(io.BytesIO(data))
    out = io.BytesIO()
    fastavro.writer(out, ROW, [], sync_marker=SYNC)
    packed = out.getvalue().replace(b"\x08null", bytes([len(codec) * 2]) + codec.encode())
    parts = [packed]
    for block in source:
        content = block.bytes_.getvalue()
        if codec == "snappy":
            body = pa.compress(content, "snappy", asbytes=True) + struct.pack(">I", zlib.crc32(content))
        elif codec == "lz4":
            body = struct.pack("<I", len(content)) + pa.compress(content, "lz4_raw", asbytes=True)
        else:
            body = pa.compress(content, "zstd", asbytes=True)
        number = io.BytesIO()
        fastavro.schemaless_writer(number, "long", block.num_records)
        fastavro.schemaless_writer(number, "bytes", body)
        parts += [number.getvalue(), SYNC]
    return b"".join(parts)


def fixed(size: int, logical: str) -> dict[str, object]:
    return {"type": "fixed", "name": "F", "size": size, "logicalType": logical}


DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 76, "scale": 38}
DIGITS = 10**75 + 7


@pytest.mark.parametrize(
    ("type", "values", "expected", "name"),
    [
        ("null", [None], [None], None),
        (["null"], [None], [None], None),
        ({"type": "int", "logicalType": "date"}, [0, -719_163], [date(1970, 1, 1), DistantDate(-719_163)], "Date"),
        ({"type": "int", "logicalType": "date"}, [2**31 - 1], [DistantDate(2**31 - 1)], "Date"),
        (
            {"type": "int", "logicalType": "time-millis"},
            [1, 86_399_999],
            [time(0, 0, 0, 1000), time(23, 59, 59, 999_000)],
            "Time",
        ),
        ({"type": "long", "logicalType": "time-micros"}, [1, 2**62], [1, 2**62], "MicroTime"),
        (
            {"type": "long", "logicalType": "timestamp-millis"},
            [1, 2**62],
            [datetime(1970, 1, 1, 0, 0, 0, 1000, UTC), DistantTimestamp(2**62)],
            "Timestamp",
        ),
        ({"type": "long", "logicalType": "timestamp-micros"}, [-(2**63)], [-(2**63)], "MicroTimestamp"),
        ({"type": "long", "logicalType": "timestamp-nanos"}, [2**62], [2**62], "NanoTimestamp"),
        (
            {"type": "long", "logicalType": "local-timestamp-millis"},
            [-1, -(2**62)],
            [datetime(1969, 12, 31, 23, 59, 59, 999_000, UTC), DistantTimestamp(-(2**62))],
            "Timestamp",
        ),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, [2**62], [2**62], "MicroTimestamp"),
        ({"type": "long", "logicalType": "local-timestamp-nanos"}, [2**62], [2**62], "NanoTimestamp"),
        (DECIMAL, [DIGITS.to_bytes(32, "big"), b"\xff"], [Decimal(f"{DIGITS}e-38"), Decimal("-1e-38")], "Decimal"),
        ({"type": "string", "logicalType": "uuid"}, ["not one", str(UUID(int=1))], ["not one", str(UUID(int=1))], None),
        (fixed(16, "uuid"), [UUID(int=2**127).bytes], [str(UUID(int=2**127))], None),
        (
            fixed(12, "duration"),
            [struct.pack("<3I", *each) for each in [(0, 0, 0), (1, 2, 0), (0, 0, 1500), (2**32 - 1, 0, 2**32 - 1)]],
            ["PT0S", "P1M2D", "PT1.5S", "P4294967295MT4294967.295S"],
            "Interval",
        ),
        ({"type": "string", "logicalType": "date"}, ["x"], ["x"], None),
    ],
)
def test_logical_types(folder: Path, type: Any, values: list[object], expected: list[object], name: str | None) -> None:
    committed = read(folder, "a", one_column(type, values), "avro")
    assert [row[0] for row in rows(committed)] == expected
    schema = committed.values[0].schema.fields[0].schema  # type: ignore[attr-defined]
    assert (schema.name or "").rpartition(".")[2] == (name or "")


@given(values=st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=5))
@settings(max_examples=examples(40), deadline=None)
def test_a_time_that_is_none_is_refused_null_or_text(
    tmp_path_factory: pytest.TempPathFactory, values: list[int]
) -> None:
    folder = tmp_path_factory.mktemp("times")
    data = one_column({"type": "int", "logicalType": "time-millis"}, values)
    good = [value for value in values if 0 <= value < 86_400_000]
    committed = read(folder, "a", data, "avro")
    assert len(committed.values) == len(good)
    assert len(reasons(committed)) == len(values) - len(good)
    nulls = read(folder, "a", data, "avro", unsupported_value_handling_mode="null")
    assert sum(row == [None] for row in rows(nulls)) == len(values) - len(good)
    texts = read(folder, "a", data, "avro", unsupported_value_handling_mode="text")
    assert all(isinstance(row[0], str) for row in rows(texts))
    assert len(texts.values) == len(values)


def test_a_damaged_marker_costs_its_block_and_the_next(folder: Path) -> None:
    data = blocks_of(30)
    at = [place for place in range(len(data)) if data.startswith(SYNC, place)][4]  # that of the fourth block
    broken = data[:at] + b"X" + data[at + 1 :]
    committed = read(folder, "a", broken, "avro")
    assert [row[0] for row in rows(committed)] == [*range(9), *range(15, 30)]
    assert "File a, row 10: bytes" in reasons(committed)[0]
    for batch in (1, 2, 5):
        assert summary(read_restarted(folder, "a", broken, "avro", batch)) == summary(committed)


@given(data=st.data())
@settings(max_examples=examples(25), deadline=None)
def test_a_restart_anywhere_in_a_damaged_file_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    content = bytearray(blocks_of(30))
    first = content.index(SYNC) + len(SYNC)
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(first, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    outcomes = []
    for batch in (100, data.draw(st.integers(1, 5))):
        try:
            committed = read_restarted(folder, "a", bytes(content), "avro", batch)
        except ConnectorError as error:
            assert "cannot be read on from row" in str(error)  # noqa: PT017
            outcomes.append("failed")
        else:
            reasons(committed)
            outcomes.append(repr(summary(committed)))
    assert outcomes[0] == outcomes[1]


def test_texts_that_are_not_utf_8(folder: Path) -> None:
    data = one_column("string", ["good", "bad..", "good"]).replace(b"bad..", b"bad\xff\xfe")
    committed = read(folder, "a", data, "avro")
    assert rows(committed) == [["good"], ["good"]]
    assert "File a, row 2: the text contains bytes" in reasons(committed)[0]
    assert rows(read(folder, "a", data, "avro", encoding_errors="escape"))[1] == [r"bad\xff\xfe"]
    assert rows(read(folder, "a", data, "avro", encoding_errors="replace"))[1] == ["bad\ufffd\ufffd"]


def test_of_a_file_that_ends_too_early_the_rows_before_arrive(folder: Path) -> None:
    (folder / "a").write_bytes(blocks_of(30)[:-5])
    committed = Committed(tolerant=True)
    with pytest.raises(ConnectorError, match=r"cannot be read on from row 27: .*too early"):
        committed.run(config_of(folder, format="avro"))
    assert len(plain(committed.values)) == 27
