"""FilesSource on what users' files hold: odd rows are read rightly or refused one by one, and reading goes on.

The inputs are those of public reports about file sources.
"""

import bz2
import csv
import gzip
import io
import json
import lzma
import struct
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringfence.connectors.api import ConnectorError, DataException
from ringfence.connectors.builtin.files import compression
from ringfence.connectors.builtin.files.formats import make_distinct, text
from tests.support.examples import examples
from tests.support.file_runs import Committed, config_of, parquet, plain, read, read_restarted, reasons, rows, summary

pytestmark = pytest.mark.usefixtures("temporary_roots")


# CSV


def test_a_byte_order_mark_before_a_quoted_name_is_no_part_of_it(folder: Path) -> None:
    committed = read(folder, "a.csv", b'\xef\xbb\xbf"id","a b"\n1,2\n', "csv")
    assert plain(committed.values) == [{"id": "1", "a b": "2"}]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_rows_end_with_any_line_end(folder: Path, end: bytes) -> None:
    data = end.join([b"a,b", b"1,2", b"", b'"x\ry\nz",4', b"5,6"])
    assert rows(read(folder, "a.csv", data, "csv")) == [["1", "2"], ["x\ry\nz", "4"], ["5", "6"]]


def test_a_quote_with_a_backslash_needs_the_setting(folder: Path) -> None:
    data = b'a,b\n"say \\"hi\\", twice",1\n"c:\\\\new\\dir",\\"2\n3,c:\\\\new\n'
    refused = reasons(read(folder, "a.csv", data, "csv"))
    assert "File a.csv, row at byte 4: the row is not CSV" in refused[0]
    assert "csv.escape" in refused[0]
    expected = [['say "hi", twice', "1"], ["c:\\new\\dir", '\\"2'], ["3", "c:\\\\new"]]
    assert rows(read(folder, "b.csv", data, "csv", **{"csv.escape": "\\", "input.file.pattern": "b.*"})) == expected


def test_ragged_rows_are_refused_filled_or_cut(folder: Path) -> None:
    data = b"a,b\n1\n1,2\n1,2,\n1,2,3\n"
    committed = read(folder, "a.csv", data, "csv")
    assert rows(committed) == [["1", "2"]]
    assert [letter.value for letter in committed.refused] == [b"1\n", b"1,2,\n", b"1,2,3\n"]
    assert "row at byte 4: the row has 1 fields, where the first row has 2" in reasons(committed)[0]
    committed = Committed(tolerant=True).run(config_of(folder, format="csv", csv_ragged="fill"))
    assert rows(committed) == [["1", None], ["1", "2"], ["1", "2"]]
    assert [letter.value for letter in committed.refused] == [b"1,2,3\n"]
    committed = Committed(tolerant=True).run(config_of(folder, format="csv", csv_ragged="cut"))
    assert rows(committed) == [["1", None], ["1", "2"], ["1", "2"], ["1", "2"]]


def test_a_quote_that_is_not_closed_costs_one_line(folder: Path) -> None:
    lines = b"".join(b"%d,x\n" % number for number in range(300_000))
    committed = read(folder, "a.csv", b'a,b\n7,"open\n' + lines, "csv")
    assert len(committed.values) == 300_000
    assert [letter.value for letter in committed.refused] == [b'7,"open\n']
    assert "unexpected end" in reasons(committed)[0]


def test_a_quote_is_not_looked_for_without_a_limit(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "MOST_ROW_BYTES", 2_000_000)
    lines = b"%0100d,x\n" % 0 * 50_000
    committed = read(folder, "a.csv", b'a,b\n7,"open\n' + lines + b'8,"closed"\n', "csv")
    assert len(committed.values) == 50_001
    assert "not closed within" in reasons(committed)[0]


def test_odd_fields_stay_as_they_are(folder: Path) -> None:
    long = b"x" * 5_000_000
    data = b'a,b\n5" pipe,1\n\x00,2\n"' + long + b'",3\n"""",4\n , \n'
    committed = read(folder, "a.csv", data, "csv")
    assert rows(committed) == [['5" pipe', "1"], ["\0", "2"], [long.decode(), "3"], ['"', "4"], [" ", " "]]


def test_a_single_column(folder: Path) -> None:
    assert rows(read(folder, "a.csv", b'a\n1\n\n"2"\n""\n3', "csv")) == [["1"], ["2"], [""], ["3"]]


def test_names_that_are_empty_or_twice_there_are_numbered(folder: Path) -> None:
    committed = read(folder, "a.csv", b"a,,a,a_2,column2\n1,2,3,4,5\n", "csv")
    assert plain(committed.values) == [{"a": "1", "column2_2": "2", "a_3": "3", "a_2": "4", "column2": "5"}]


@given(names=st.lists(st.sampled_from(["", "a", "a_2", "a_3", "column1", "column2", "column2_2"]), max_size=12))
def test_distinct_names_are_distinct(names: list[str]) -> None:
    distinct = make_distinct(names)
    assert len(set(distinct)) == len(distinct) == len(names)
    assert all(new.startswith(old or "column") for new, old in zip(distinct, names, strict=True))
    firsts = {name: names.index(name) for name in names if name}
    assert all(distinct[place] == name for name, place in firsts.items())


def test_thousands_of_equal_names_take_no_time() -> None:
    assert make_distinct(["a"] * 50_000)[-1] == "a_50000"


@pytest.mark.parametrize("format", ["text", "csv", "jsonl", "parquet"])
def test_bytes_that_are_not_text_are_refused_replaced_or_escaped(folder: Path, format: str) -> None:
    data = {
        "text": b"a\n\xff\xe9x\nb",
        "csv": b"a\na\n\xff\xe9x\nb\n",
        "jsonl": b'"a"\n"\xff\xe9x"\n"b"',
        "parquet": parquet(pa.array([b"a", b"\xff\xe9x", b"b"]).view(pa.string())),
    }[format]

    def values(**more: str) -> list[object]:
        committed = Committed(tolerant=True).run(config_of(folder, format=format, **more))
        return [next(iter(value.values())) if isinstance(value, dict) else value for value in plain(committed.values)]

    committed = read(folder, "a", data, format)
    assert len(committed.values) == 2
    assert "not in its encoding" in reasons(committed)[0]
    assert "encoding.errors" in reasons(committed)[0]
    assert values(encoding_errors="replace") == ["a", "\ufffd\ufffdx", "b"]
    assert values(encoding_errors="escape") == ["a", r"\xff\xe9x", "b"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-32", "cp1252", "shift_jis", "utf-8"])
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_encodings(folder: Path, encoding: str, suffix: str) -> None:
    word = "\uff76\u8868" if encoding == "shift_jis" else "caf\u00e9"
    lines = [f"{number},{word}" for number in range(20)]
    data = "\n".join(["n,word", *lines]).encode(encoding)
    packed = gzip.compress(data) if suffix else data
    committed = read_restarted(folder, f"a.csv{suffix}", packed, "csv", 3, encoding=encoding)
    assert rows(committed) == [[str(number), word] for number in range(20)]


def test_string_converter_gets_texts_and_not_bytes_of_another_encoding(folder: Path) -> None:
    (folder / "a").write_bytes(b"caf\xe9\n")
    strings = {"value.converter": "org.apache.kafka.connect.storage.StringConverter"}
    assert Committed().run(config_of(folder, encoding="cp1252", **strings), raw=True).values == ["caf\u00e9"]
    bare = {"value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter"}
    assert Committed().run(config_of(folder, encoding="cp1252", **bare), raw=True).values == [b"caf\xe9"]
    (folder / "a").write_bytes("caf\u00e9\n".encode("utf-16"))
    assert Committed().run(config_of(folder, encoding="utf-16", **strings), raw=True).values == ["caf\u00e9".encode()]


def test_a_file_that_is_not_in_utf_16_is_told(folder: Path) -> None:
    (folder / "a").write_bytes(b"a\nb\n")
    with pytest.raises(ConnectorError, match=r"does not begin as utf-16 does\. Set encoding to utf-16-le"):
        Committed().run(config_of(folder, encoding="utf-16"))


def test_halves_of_characters_in_utf_16_are_refused(folder: Path) -> None:
    data = "a\n".encode("utf-16") + b"\x00\xd8" + "x\nb\n".encode("utf-16-le") + b"c"
    committed = read(folder, "a", data, "text", encoding="utf-16")
    assert committed.values == ["a", "b"]
    assert len(reasons(committed)) == 2


def test_a_file_in_utf_16_says_so(folder: Path) -> None:
    (folder / "a").write_bytes("a\nb\n".encode("utf-16"))
    for format in ("text", "csv", "jsonl"):
        with pytest.raises(ConnectorError, match="Set encoding=utf-16"):
            Committed().run(config_of(folder, format=format))


cells = st.text(st.sampled_from('a1,"\\\n\r \u00e9\0'), max_size=5)
tables = st.integers(1, 3).flatmap(lambda width: st.lists(st.lists(cells, min_size=width, max_size=width), max_size=8))


@given(table=tables, end=st.sampled_from(["\n", "\r\n", "\r"]), batch=st.integers(1, 3))
@settings(max_examples=examples(60), deadline=None)
def test_every_table_is_read_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, table: list[list[str]], end: str, batch: int
) -> None:
    file = io.StringIO()
    csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator=end).writerows(table)
    folder = tmp_path_factory.mktemp("tables")
    committed = read_restarted(folder, "a.csv", file.getvalue().encode(), "csv", batch, csv_header="false")
    assert rows(committed) == table
    assert not committed.refused


@given(table=tables, batch=st.integers(1, 3))
@settings(max_examples=examples(60), deadline=None)
def test_every_table_is_read_as_it_was_written_with_an_escape(
    tmp_path_factory: pytest.TempPathFactory, table: list[list[str]], batch: int
) -> None:
    """As PostgreSQL and Spark write it."""

    def quoted(cell: str) -> str:
        return '"' + cell.replace("\\", "\\\\").replace('"', '\\"') + '"'

    data = "".join(",".join(map(quoted, row)) + "\n" for row in table).encode()
    folder = tmp_path_factory.mktemp("tables")
    more = {"csv.header": "false", "csv.escape": "\\"}
    assert rows(read_restarted(folder, "a.csv", data, "csv", batch, **more)) == table


pieces = st.sampled_from(
    [b"a,b", b"1,2", b"1", b"1,2,3", b'"', b'"x', b'x"y,2', b'"x"y,2', b"\n", b"\r", b"\r\n", b"\xff,2", b'\\"', b"\0"]
)


@given(data=st.lists(pieces, max_size=25).map(b"".join), batch=st.integers(1, 4), header=st.booleans())
@settings(max_examples=examples(150), deadline=None)
def test_a_restart_between_any_bad_rows_of_csv_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, batch: int, header: bool
) -> None:
    folder = tmp_path_factory.mktemp("rows")
    more = {"csv.header": str(header).lower()}
    try:
        whole = read(folder, "a.csv", data, "csv", **more)
    except ConnectorError as error:
        assert "its first row" in str(error)  # noqa: PT017 - most files are read
        return
    reasons(whole)
    assert summary(read_restarted(folder, "a.csv", data, "csv", batch, **more)) == summary(whole)


# JSON lines


def test_odd_lines_of_json(folder: Path) -> None:
    lines = [
        b'\xef\xbb\xbf{"a": 1, "a": 2}',
        b"",
        b"   ",
        b"9223372036854775807",
        b"9223372036854775808",
        b"-9223372036854775809",
        b"[123456789012345678901234567890]",
        b'{"n": NaN}',
        b"-Infinity",
        b"1e400",
        b'"\\ud800"',
        b"[1, 2]",
        b'"1234567890123456789012"',
        b"0.12345678901234567890123",
        b"[" * 100_000,
        b"[" * 990 + b"NaN" + b"]" * 990,
        b"\x00",
        b'{"a": ',
        b'{"a": 1}, {"a": 2}',
        b"true",
        b'{"truncated": "li',
    ]
    data = b"\n".join(lines)
    committed = read(folder, "a.jsonl", data, "jsonl")
    good = [{"a": 2}, 2**63 - 1, [1, 2], "1234567890123456789012", 0.12345678901234568, True]
    assert committed.values == good
    refused = reasons(committed)
    assert len(refused) == len(lines) - len(good) - 2
    assert "File a.jsonl, row at byte 45: the JSON contains a number" in refused[0]
    assert "unsupported.value.handling.mode" in refused[0]
    assert committed.refused[0].value == b"9223372036854775808"
    for batch in (1, 2, 5):
        assert summary(read_restarted(folder, "a.jsonl", data, "jsonl", batch)) == summary(committed)


def test_numbers_beyond_64_bits_may_be_null_or_text(folder: Path) -> None:
    data = b'{"a": [18446744073709551616, NaN, -1e999, 1], "\\ud800": "\\udfff"}\n'
    committed = read(folder, "a", data, "jsonl", unsupported_value_handling_mode="null", encoding_errors="replace")
    assert committed.values == [{"a": [None, None, None, 1], "\ufffd": "\ufffd"}]
    committed = read(folder, "a", data, "jsonl", unsupported_value_handling_mode="text", encoding_errors="escape")
    assert committed.values == [{"a": ["18446744073709551616", "NaN", "-1e999", 1], r"\ud800": r"\udfff"}]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(values=st.lists(json_values, max_size=10))
@settings(max_examples=examples(100), deadline=None)
def test_json_is_read_as_by_python_or_refused(tmp_path_factory: pytest.TempPathFactory, values: list[object]) -> None:
    def fits(value: object) -> bool:
        if isinstance(value, dict):
            return all(map(fits, value.values()))
        if isinstance(value, list):
            return all(map(fits, value))
        if isinstance(value, float):
            return value - value == 0
        return not isinstance(value, int) or -(2**63) <= value < 2**63

    data = "\n".join(json.dumps(value) for value in values).encode()
    committed = read(tmp_path_factory.mktemp("json"), "a", data, "jsonl")
    assert committed.values == [value for value in values if fits(value)]
    assert len(committed.refused) == sum(not fits(value) for value in values)
    reasons(committed)


# Text


def test_odd_lines_of_text(folder: Path) -> None:
    assert read(folder, "a", b"a\rb\r\n\nc\0\n\xc3\xa9", "text").values == ["a", "b", "", "c\0", "\u00e9"]


# Compressed files

LINES = b"".join(b"%d\n" % number for number in range(30_000))


def zstd(data: bytes) -> bytes:
    packed = pa.compress(data, codec="zstd", asbytes=True)
    assert isinstance(packed, bytes)
    return packed


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": zstd,
}


@pytest.mark.parametrize("suffix", PACKERS)
@pytest.mark.parametrize("between", [b"", b"\0" * 8, b"\0" * 70_000])
def test_parts_one_after_the_other(folder: Path, suffix: str, between: bytes) -> None:
    pack = PACKERS[suffix]
    data = pack(LINES[:70_001]) + between + pack(b"") + pack(LINES[70_001:]) + between
    assert read(folder, f"a.{suffix}", data, "text").values == LINES.decode().splitlines()
    assert read_restarted(folder, f"a.{suffix}", data, "text", 9_999).values == LINES.decode().splitlines()


@pytest.mark.parametrize("suffix", PACKERS)
@pytest.mark.parametrize("garbage", [b"x", b"garbage", b"\0\0garbage", b"x" * 200_000])
def test_garbage_behind_the_last_part_is_warned_of(
    folder: Path, suffix: str, garbage: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    warnings: list[str] = []
    # Not by what the process logs: whether it does is set by others.
    monkeypatch.setattr(compression.logger, "warning", lambda text, *values: warnings.append(text % values))
    committed = read(folder, f"a.{suffix}", PACKERS[suffix](LINES) + garbage, "text")
    assert committed.values == LINES.decode().splitlines()
    assert any("trailing garbage" in each for each in warnings)


@pytest.mark.parametrize("suffix", PACKERS)
def test_of_a_file_that_ends_too_early_the_rows_before_arrive(folder: Path, suffix: str) -> None:
    whole, pack = LINES.decode().splitlines(), PACKERS[suffix]
    for cut in (1, 7, 100):
        (folder / f"a.{suffix}").write_bytes(pack(LINES) + pack(LINES)[:-cut])
        committed = Committed(tolerant=True)
        with pytest.raises(ConnectorError, match=r"cannot be read on from byte \d+: .* ends too early.* Repair"):
            committed.run(config_of(folder))
        assert len(committed.values) >= len(whole)
        assert committed.values == (whole * 2)[: len(committed.values)]


@pytest.mark.parametrize("suffix", PACKERS)
def test_what_is_not_compressed_is_told(folder: Path, suffix: str) -> None:
    (folder / f"a.{suffix}").write_bytes(LINES)
    with pytest.raises(ConnectorError, match=rf"File a\.{suffix} cannot be read on from byte 0: it is not compressed"):
        Committed().run(config_of(folder))


def test_a_gzip_file_with_another_checksum_is_told_behind_its_rows(folder: Path) -> None:
    data = bytearray(gzip.compress(LINES * 20))
    data[-8] ^= 1
    (folder / "a.gz").write_bytes(data)
    committed = Committed()
    with pytest.raises(ConnectorError, match=r"is broken: .*incorrect data check"):
        committed.run(config_of(folder))
    assert len(committed.values) > 300_000


def test_a_window_of_gigabytes_is_refused(folder: Path) -> None:
    frame = b"\x28\xb5\x2f\xfd" + bytes([0x00, 20 << 3]) + b"\0" * 20  # 1 GiB
    (folder / "a.zst").write_bytes(frame)
    with pytest.raises(ConnectorError, match=r"(?i)memory|too much|window"):
        Committed().run(config_of(folder))


def archive(members: Sequence[tuple[str, bytes]], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as packed:
        for name, data in members:
            packed.writestr(name, data)
    return file.getvalue()


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED, zipfile.ZIP_BZIP2])
def test_the_members_of_an_archive_are_files_by_themselves(folder: Path, encoding: str, method: int) -> None:
    members = [
        ("in/b.csv", "a,b\n1,2\n3,4".encode(encoding)),
        ("in/", b""),
        ("__MACOSX/in/b.csv", b"no"),
        ("in/.hidden", b"no"),
        ("empty.csv", b""),
        ("header.csv", "b,a\n".encode(encoding)),
        ("a.csv", "b,a\n5,6\n\n".encode(encoding)),
    ]
    data = archive(members, method)
    expected = [{"a": "1", "b": "2"}, {"a": "3", "b": "4"}, {"b": "5", "a": "6"}]
    for batch in (1, 2, 10):
        committed = read_restarted(folder, "a.zip", data, "csv", batch, encoding=encoding)
        assert plain(committed.values) == expected
    assert plain(read(folder, "a.zip", data, "csv", encoding=encoding).values) == expected


def test_archives_without_rows(folder: Path) -> None:
    for members in ([], [("a", b"")], [("a", b""), ("b", b"")]):
        committed = read(folder, "a.zip", archive(members), "text")
        assert committed.values == []
        assert [offset["done"] for offset in committed.offsets.values()] == [True]


def test_broken_archives(folder: Path) -> None:
    whole = archive([("good.txt", LINES), ("bad.txt", LINES)])
    at = whole.rindex(b"bad.txt", 0, whole.index(b"PK\x01\x02"))
    broken = bytearray(whole)
    broken[at + 2_000 : at + 2_100] = b"\xff" * 100
    encrypted = whole.replace(b"PK\x01\x02\x14\x03\x14\x00\x00\x00", b"PK\x01\x02\x14\x03\x14\x00\x01\x00")
    assert encrypted != whole
    for data, reason, least in (
        (bytes(broken), r"its member bad\.txt is broken", 30_000),
        (encrypted, r"its member good\.txt is encrypted", 0),
        (whole[:-30], "it is not a zip archive", 0),
        (b"", "it is not a zip archive", 0),
    ):
        (folder / "a.zip").write_bytes(data)
        committed = Committed()
        with pytest.raises(ConnectorError, match=reason):
            committed.run(config_of(folder))
        assert len(committed.values) >= least


def test_an_archive_of_too_many_files_is_refused(folder: Path) -> None:
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 0xFFFE, 0xFFFE, 20 << 20, 0, 0)
    (folder / "a.zip").write_bytes(b"\0" * (20 << 20) + end)
    with pytest.raises(ConnectorError, match="too many files"):
        Committed().run(config_of(folder))


# Parquet in parts that the tests of its types do not have


def test_files_without_rows_or_columns(folder: Path) -> None:
    for table in (pa.table({"a": pa.array([], pa.int8())}), pa.table({"a": [1]}).select([])):
        file = io.BytesIO()
        pyarrow.parquet.write_table(table, file)
        committed = read(folder, "a", file.getvalue(), "parquet")
        assert committed.values == []
        assert [offset["done"] for offset in committed.offsets.values()] == [True]
    with pytest.raises(ConnectorError, match="it is not a Parquet file"):
        read(folder, "a", b"", "parquet")


def test_row_groups_without_rows(folder: Path) -> None:
    file = io.BytesIO()
    schema = pa.schema([("a", pa.int8())])
    with pyarrow.parquet.ParquetWriter(file, schema) as writer:
        for values in ([], [1], [], [], [2, 3], []):
            writer.write_batch(pa.record_batch([pa.array(values, pa.int8())], schema))
    for batch in (1, 2, 5):
        assert rows(read_restarted(folder, "a", file.getvalue(), "parquet", batch)) == [[1], [2], [3]]


def test_columns_of_one_name_are_numbered(folder: Path) -> None:
    file = io.BytesIO()
    inner = pa.StructArray.from_arrays([pa.array([3]), pa.array([4])], ["b", "b"])
    pyarrow.parquet.write_table(pa.table([[1], [2], inner], names=["a", "a", "s"]), file)
    (value,) = read(folder, "a", file.getvalue(), "parquet").values
    assert plain([value]) == [{"a": 1, "a_2": 2, "s": value["s"]}]  # type: ignore[index]
    assert plain([value["s"]]) == [{"b": 3, "b_2": 4}]  # type: ignore[index]


def test_a_torn_page_is_an_error_of_the_file(folder: Path) -> None:
    """Not one of the place, which would be tried again for ever."""
    data = bytearray(parquet(pa.array(range(200_000)), compression="snappy", row_group_size=50_000))
    at = len(data) * 3 // 4
    data[at : at + 50] = b"\xff" * 50
    (folder / "a").write_bytes(data)
    committed = Committed(tolerant=True)
    with pytest.raises(ConnectorError, match="cannot be read as Parquet after row"):
        committed.run(config_of(folder, format="parquet"))
    assert len(committed.values) >= 50_000


def test_a_restart_between_any_bad_rows_of_parquet_changes_nothing(folder: Path) -> None:
    texts = pa.array([b"\xff" if number % 7 == 3 else b"x" for number in range(60)]).view(pa.string())
    data = parquet(texts, row_group_size=11)
    whole = read(folder, "a", data, "parquet")
    assert [letter.error.row for letter in whole.refused if isinstance(letter.error, DataException)] == [
        str(number + 1) for number in range(60) if number % 7 == 3
    ]
    assert whole.refused[0].value == '{"a":"\\\\xff"}'
    for batch in (1, 2, 5, 13):
        assert summary(read_restarted(folder, "a", data, "parquet", batch)) == summary(whole)


def test_without_tolerance_the_task_fails_at_the_row(folder: Path) -> None:
    (folder / "a.csv").write_bytes(b"a\n1\n\xff\n3\n")
    committed = Committed()
    for _ in range(2):  # the restarted task finds the same
        with pytest.raises(DataException, match=r"File a\.csv, row at byte 4: .*encoding\.errors"):
            committed.run(config_of(folder, format="csv", batch_size="1"))
    assert rows(committed) == [["1"]]
