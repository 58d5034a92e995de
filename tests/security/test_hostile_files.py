"""Files and databases that a tenant or a server made: bombs, and names that point elsewhere."""

import gzip
import io
import json
import lzma
import sqlite3
import zlib
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from ringfence.connectors.api import ConnectorError
from ringfence.connectors.builtin.dlt_source.rest_config import parse_rest_config
from ringfence.connectors.builtin.files.compression import BROKEN, contents
from ringfence.connectors.builtin.files.connector import FilesSourceConnector
from ringfence.connectors.builtin.files.formats import FormatError, text
from ringfence.connectors.builtin.files.reading import FORMATS
from ringfence.connectors.builtin.spark_table import snapshots
from ringfence.connectors.builtin.spark_table.snapshots import DeltaSnapshot, IcebergSnapshot
from ringfence.connectors.builtin.sql.connector import SqlSourceConnector
from ringfence.connectors.builtin.sql.database import CONNECT_SECONDS, Database
from tests.support.hostile_folder import COMMIT, Folder

# Compressed files


def decompress(name: str, file: io.BytesIO) -> Any:
    return contents(name, file)[0].open()


def test_an_xz_file_is_read_as_by_python() -> None:
    content = b"".join(b"%d\n" % each for each in range(200_000))
    packed = lzma.compress(content[:700_000]) + b"\0" * 8 + lzma.compress(content[700_000:])
    stream = decompress("a.xz", io.BytesIO(packed))
    assert stream.read() == content
    stream.seek(500_000)
    assert stream.read(10) == content[500_000:500_010]
    stream.seek(3)
    assert stream.readline() == content[3:].partition(b"\n")[0] + b"\n"


@pytest.mark.parametrize("cut", [1, 20, 100])
def test_a_broken_xz_file_is_an_error(cut: int) -> None:
    packed = lzma.compress(b"some text" * 1000)
    with pytest.raises(BROKEN):
        decompress("a.xz", io.BytesIO(packed[:-cut])).read()


def test_a_dictionary_of_gigabytes_is_refused() -> None:
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 1 << 20}]
    packed = bytearray(lzma.compress(b"a", filters=filters))
    at = packed.index(b"\x21\x01") + 2  # LZMA2, one byte of properties: the size of the dictionary
    packed[at] = 40  # 4 GiB
    header = packed[12 : 12 + (packed[12] + 1) * 4 - 4]
    packed[12 + len(header) : 12 + len(header) + 4] = zlib.crc32(bytes(header)).to_bytes(4, "little")
    with pytest.raises(BROKEN, match=r"[Mm]emory"):
        decompress("a.xz", io.BytesIO(bytes(packed))).read()


@pytest.mark.parametrize("format", ["text", "jsonl", "csv"])
def test_a_line_without_end_is_refused(format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "MOST_LINE_BYTES", 3 << 20)
    monkeypatch.setattr(text, "MOST_LINE_BYTES", 3 << 20)
    bomb = gzip.compress(b"a" * (8 << 20))
    settings = FilesSourceConnector.config_def().parse({"url": "file:///x", "format": format, "topic": "t"})
    with pytest.raises(FormatError, match="has more than"):
        FORMATS[format](decompress("a.gz", io.BytesIO(bomb)), 0, settings).read(10)


# Tables whose metadata name other files


def delta(*actions: object) -> Any:
    always = [{"protocol": {"minReaderVersion": 1}}, {"metaData": {"schemaString": '{"fields": []}'}}]
    return Folder({COMMIT: b"\n".join(json.dumps(each).encode() for each in [*always, *actions])})


@pytest.mark.parametrize(
    "path",
    ["../other/a.parquet", "%2e%2e/other/a.parquet", "/etc/passwd", "file:/etc/passwd", "s3://b/a", "a/../../b", "\0"],
)
def test_a_delta_log_names_no_file_outside_its_folder(path: str) -> None:
    place = delta({"add": {"path": path}})
    with pytest.raises(ConnectorError, match=r"outside its folder|missing"):
        DeltaSnapshot(place, list(place.list()), None)
    assert place.opened == [COMMIT]


@pytest.mark.parametrize(
    "log",
    [
        b"[1]",
        b'"a"',
        b"{",
        b"[" * 100_000,
        b'{"add": 1}',
        b'{"protocol": {"minReaderVersion": "x"}}',
        b"\xff",
        b"1e999",
    ],
)
def test_a_broken_delta_log_is_an_error_with_a_remedy(log: bytes) -> None:
    place: Any = Folder({COMMIT: log})
    with pytest.raises(ConnectorError):
        DeltaSnapshot(place, list(place.list()), None)


def iceberg(manifest_list: str, more: dict[str, bytes] | None = None) -> Any:
    table = {
        "format-version": 2,
        "location": "s3://b/t",
        "current-snapshot-id": 1,
        "schemas": [{"fields": []}],
        "snapshots": [{"snapshot-id": 1, "manifest-list": manifest_list}],
    }
    return Folder({"metadata/v1.metadata.json": json.dumps(table).encode(), **(more or {})})


@pytest.mark.parametrize(
    "path", ["s3://b/t/../other/m.avro", "s3://b/other", "file:///etc/passwd", "/etc/passwd", "s3://b/t/m.avro"]
)
def test_iceberg_metadata_name_no_file_outside_its_folder(path: str) -> None:
    place = iceberg(path)
    with pytest.raises(ConnectorError, match=r"outside its folder|missing"):
        IcebergSnapshot(place, list(place.list()), None, None)
    assert place.opened == ["metadata/v1.metadata.json"]


@pytest.mark.parametrize("content", [b"", b"Obj\x01", b"Obj\x01" + b"\xff" * 50, b"[" * 9999])
def test_broken_iceberg_metadata_are_an_error_with_a_remedy(content: bytes) -> None:
    for place in (iceberg("s3://b/t/m.avro", {"m.avro": content}), Folder({"metadata/v1.metadata.json": content})):
        with pytest.raises(ConnectorError):
            IcebergSnapshot(place, list(place.list()), None, None)  # type: ignore[arg-type]


def test_compressed_metadata_have_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "MOST_BYTES", 1 << 20)
    monkeypatch.setattr("ringfence.connectors.builtin.spark_table.snapshots.MOST_BYTES", 1 << 20)
    place: Any = Folder({"metadata/v1.gz.metadata.json": gzip.compress(b" " * (4 << 20))})
    with pytest.raises(ConnectorError, match="larger than"):
        IcebergSnapshot(place, list(place.list()), None, None)


# SQLite


def sqlite_settings(path: Path, **more: str) -> dict[str, str]:
    return {"connection.url": f"jdbc:sqlite:{path}", "mode": "bulk", "topic.prefix": "t", **more}


def test_a_missing_sqlite_file_is_an_error_of_its_setting(tmp_path: Path) -> None:
    settings = SqlSourceConnector.config_def().parse(sqlite_settings(tmp_path / "none.db"))
    with pytest.raises(ConnectorError, match=r"connection\.url.*cannot be opened"):
        Database(settings)


def test_sqlite_makes_no_value_of_any_size(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    sqlite3.connect(path).close()
    database = Database(SqlSourceConnector.config_def().parse(sqlite_settings(path)))
    with closing(database.engine().connect()) as connection:
        assert connection.scalar(sa.text("select length(zeroblob(1000000))")) == 1_000_000
        with pytest.raises(sa.exc.SQLAlchemyError, match="too big"):
            connection.scalar(sa.text("select hex(zeroblob(150000000))"))


def test_a_silent_database_is_given_up_before_a_validation_is() -> None:
    assert CONNECT_SECONDS <= 5


# DltSource's description


@pytest.mark.parametrize("place", ["params", "json", "data"])
@pytest.mark.parametrize("name", ["api_key", "access_token", "client_secret", "password", "apiKey"])
def test_a_secret_in_what_is_sent_is_refused(place: str, name: str) -> None:
    for sent in ({name: "abc"}, {"inner": {name: "abc"}}, {"list": [{name: "abc"}]}):
        endpoint = {"path": "a", place: sent}
        config = {"client": {"base_url": "http://127.0.0.1"}, "resources": [{"name": "a", "endpoint": endpoint}]}
        with pytest.raises(ConnectorError, match="would be visible") as caught:
            parse_rest_config(json.dumps(config))
        assert "abc" not in str(caught.value)


def test_other_parameters_are_sent_as_before() -> None:
    endpoint = {"path": "a", "params": {"page": 1, "token_type": {"a": 1}, "sort": "key"}, "json": {"q": "password"}}
    config = {"client": {"base_url": "http://127.0.0.1"}, "resources": [{"name": "a", "endpoint": endpoint}]}
    assert parse_rest_config(json.dumps(config))


# Parquet


def read_parquet(file: io.BytesIO) -> list[object]:
    settings = FilesSourceConnector.config_def().parse({"url": "file:///x", "format": "parquet", "topic": "t"})
    file.seek(0)
    return list(FORMATS["parquet"](file, 0, settings).read(10).values)


def test_a_parquet_list_of_millions_is_refused() -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    long = pa.ListArray.from_arrays(pa.array([0, 2_000_000], pa.int32()), pa.array([0] * 2_000_000, pa.int8()))
    file = io.BytesIO()
    pq.write_table(pa.table({"a": pa.StructArray.from_arrays([long], ["b"])}), file, compression="zstd")
    assert len(file.getvalue()) < 20_000
    with pytest.raises(FormatError, match="2,000,000 elements"):
        read_parquet(file)


def test_parquet_lists_and_maps_are_read_as_before() -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    maps = pa.array([[("a", [1])], None, []], pa.map_(pa.string(), pa.list_(pa.int32())))
    file = io.BytesIO()
    pq.write_table(pa.table({"m": maps, "l": [[[1, 2], None], [], None]}), file)
    assert len(read_parquet(file)) == 3


def test_a_parquet_schema_of_many_levels_is_a_format_error() -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    deep = pa.int32()
    for _ in range(300):
        deep = pa.list_(deep)
    file = io.BytesIO()
    pq.write_table(pa.table([pa.array([None], type=deep)], names=["a"]), file)
    with pytest.raises(FormatError, match=r"not a Parquet file|nested too deeply"):
        read_parquet(file)
