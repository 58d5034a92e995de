"""Every parser that meets bytes from elsewhere: how to call it, valid inputs to begin with, and its declared errors."""

# ruff: noqa: E501 - one line for each parser

import asyncio
import gzip
import io
import json
import lzma
import struct
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

import fastavro
import orjson
import pyarrow
from fastavro.schema import SchemaParseException, UnknownType

from ringfence.api.v1 import transfer
from ringfence.connectors.api import ConfigException, ConnectorError
from ringfence.connectors.api.fetching import NotFetchable
from ringfence.connectors.builtin.dlt_source.rest_config import parse_rest_config
from ringfence.connectors.builtin.files.compression import BROKEN, contents
from ringfence.connectors.builtin.files.connector import FilesSourceConnector
from ringfence.connectors.builtin.files.reading import FORMATS
from ringfence.connectors.builtin.files.reading import parse as parse_file_offset
from ringfence.connectors.builtin.postgres import pgoutput, text_values
from ringfence.connectors.builtin.pyspark_source.types import parse_ddl
from ringfence.connectors.builtin.spark_table.snapshots import DeltaSnapshot, IcebergSnapshot
from ringfence.connectors.builtin.webhook import request_parsing
from ringfence.connectors.config_providers import ConfigProviders
from ringfence.connectors.converters.registry.reading import _indexes
from ringfence.connectors.java import channel as java_frames
from ringfence.connectors.sdk import request_frames as webhook_frames
from ringfence.connectors.sdk.avro import container
from ringfence.connectors.sdk.avro.bounds import Bounds, check_json
from ringfence.connectors.sdk.avro.container import open_blocks
from ringfence.connectors.sdk.kafka_settings import security
from ringfence.connectors.sdk.properties import MalformedLine
from ringfence.connectors.sdk.properties import read as read_properties
from ringfence.connectors.sdk.snapshot_signals import parse_request
from ringfence.connectors.sdk.values import literals
from ringfence.connectors.transforms.routing import java_pattern
from ringfence.engine.browsing.expression import TooManySteps, Wrong, parse
from ringfence.engine.browsing.reader_calls import Decoder
from ringfence.engine.plugins.secret_removal import Scrubber
from ringfence.fencing.errors import Fatal, FencingError
from ringfence.fencing.fetching.fetched_batches import Fetch, select_committed, split_batches
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.kafka import record_batches
from ringfence.fencing.offsets import record_counts
from ringfence.fencing.offsets.source_offsets import SourceOffsets, connector_of, decode_key, decode_value, encode_value
from ringfence.fencing.offsets.view import OffsetIndex
from ringfence.fencing.share.share_partition import state_topic
from ringfence.fencing.topics import config_records, status
from ringfence.fencing.transactions import messages
from ringfence.fencing.transactions.login import login
from ringfence.fencing.transactions.wire import (
    NO_TAGS,
    MalformedResponse,
    Reader,
    array,
    i16,
    i32,
    i64,
    string,
)
from ringfence.http.errors import ConnectError
from ringfence.projection import change_notifications
from ringfence.projection.models import pack
from ringfence.projection.offset_rows import parse_key
from ringfence.recovery import backup_format
from ringfence.web.new.form_state import read_pasted
from tests.support.fetched import run_of
from tests.support.hostile_folder import COMMIT, Folder


@dataclass(frozen=True)
class Target:
    """A parser. errors: those that its callers expect."""

    parse: Callable[[bytes], object]
    seeds: Sequence[bytes]
    errors: tuple[type[BaseException], ...] = ()


def _avro_schema() -> tuple[Any, Bounds]:
    fields = [
        {"name": "n", "type": ["null", "N"]},
        {"name": "a", "type": {"type": "array", "items": ["null", "long", "N"]}},
        {"name": "m", "type": {"type": "map", "values": "string"}},
        {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "t", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
    ]
    named: dict[str, Any] = {}
    schema = fastavro.parse_schema({"type": "record", "name": "N", "fields": fields}, named_schemas=named)
    return schema, Bounds(schema, named)


_SCHEMA, _BOUNDS = _avro_schema()


def _read_avro(data: bytes) -> object:
    _BOUNDS.check(data)
    return fastavro.schemaless_reader(io.BytesIO(data), _SCHEMA, None)


def _read_avro_with_its_schema(data: bytes) -> object:
    """The schema up to a zero byte, then the value, as a registry's."""
    text, _, value = data.partition(b"\0")
    document = json.loads(text)
    check_json(document)
    named: dict[str, Any] = {}
    try:
        schema = fastavro.parse_schema(document, named_schemas=named)
    except (SchemaParseException, UnknownType):
        return None
    Bounds(schema, named).check(value)
    return fastavro.schemaless_reader(io.BytesIO(value), schema, None)


def _read_container(data: bytes) -> object:
    _, blocks = open_blocks(io.BytesIO(data))
    return sum(1 for _, records in blocks for _ in records)


def _read_fetched(data: bytes) -> object:
    batches = select_committed(list(split_batches("t", 0, data, 0, 2**31)), [(1, 0)])
    return [(batch.encode_for("t"), run_of(batch)) for batch in batches]


_ID: Final = b"\1" * 16
_ASKED: Final[Sequence[messages.Request]] = (
    messages.ApiVersions("1.0"),
    messages.Metadata(["t"]),
    messages.FindCoordinator("k", messages.TRANSACTION_KEY),
    messages.InitProducerId("k", 1000),
    messages.AddPartitions("k", 1, 1, [("t", 0)]),
    messages.AddOffsets("k", 1, 1, "g"),
    messages.CommitOffsets("k", 1, 1, messages.GroupMember("g", 1, "m"), {("t", 0): 5}, implicit=False),
    messages.EndTransaction("k", 1, 1, committed=True, implicit=True),
    messages.Produce("k", 1000, {("t", 0): (b"", b"")}, implicit=True, topic_ids={"t": _ID}),
    messages.BrokerSetting(1, "a.b.ms"),
    messages.SaslHandshake("PLAIN"),
    messages.SaslAuthenticate(b""),
    Fetch({}, {"t": _ID}, b"\1", 1, 1, 1, 1),
)


def _answer(number: int, version: int, *parts: bytes) -> bytes:
    return bytes((number, version)) + b"".join(parts) + NO_TAGS


_ANSWERS: Final = [
    _answer(0, 3, i16(0), array([i16(3) + i16(0) + i16(13) + NO_TAGS]), i32(0)),
    _answer(
        1,
        13,
        i32(0),
        array([i32(1) + string("host") + i32(9092) + string(None) + NO_TAGS]),
        string("cluster") + i32(1),
        array(
            [
                i16(0)
                + string("t")
                + _ID
                + b"\0"
                + array([i16(0) + i32(0) + i32(1) + i32(5) + array([i32(1)]) + array([i32(1)]) + array([]) + NO_TAGS])
                + i32(0)
                + NO_TAGS
            ]
        ),
        i16(0),
    ),
    _answer(
        8,
        13,
        array(
            [_ID + array([i32(0) + i16(0) + i64(7) + i64(-1) + i64(0) + array([]) + string("x") + NO_TAGS]) + NO_TAGS]
        ),
        i32(0),
    ),
    _answer(
        12,
        16,
        i32(0),
        i16(0),
        i32(0),
        array(
            [
                _ID
                + array(
                    [
                        i32(0)
                        + i16(0)
                        + i64(9)
                        + i64(9)
                        + i64(0)
                        + array([i64(1) + i64(2) + NO_TAGS])
                        + i32(-1)
                        + string("rows")
                        + NO_TAGS
                    ]
                )
                + NO_TAGS
            ]
        ),
    ),
    *(_answer(number, version, b"\0" * 60) for number in range(13) for version in (3, 5)),
]


def _read_answer(data: bytes) -> object:
    """What a broker answers to one of our requests: its number and version come first."""
    if len(data) < 2:
        return None
    request = _ASKED[data[0] % len(_ASKED)]
    first, last = request.versions
    return request.decode(first + data[1] % (last - first + 1), Reader(data, 2))


def _log_in(data: bytes) -> object:
    """A broker's two answers in SCRAM. The nonce that it has to repeat stands for `NONCE`."""
    challenge, _, verdict = data.partition(b"|")
    exchange = login("SCRAM-SHA-256", "user", "pencil")
    nonce = next(exchange).rpartition(b"r=")[2]
    exchange.send(challenge.replace(b"NONCE", nonce))
    return exchange.send(verdict)


def _zip(content: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a", content)
    return file.getvalue()


def _zstd(content: bytes) -> bytes:
    packed = pyarrow.compress(content, codec="zstd", asbytes=True)
    assert isinstance(packed, bytes)
    return packed


def _read_file(format: str, name: str = "a", encoding: str = "utf-8") -> Callable[[bytes], object]:
    config = {"url": "file:///x", "format": format, "topic": "t", "encoding": encoding}
    settings = FilesSourceConnector.config_def().parse(config)

    def read(data: bytes) -> object:
        parts = contents(name, io.BytesIO(data), None if encoding == "utf-8" else encoding)
        if not parts:
            return 0
        reader = FORMATS[format](parts[0].open(), 0, settings)
        count = 0
        while not reader.at_end and count < 10_000:
            rows = reader.read(500)
            count += len(rows.values)
            if not rows.values:
                break
        return count

    return read


def _delta(data: bytes) -> object:
    place: Any = Folder({COMMIT: data, "a.parquet": b""})
    return DeltaSnapshot(place, list(place.list()), None).files


def _iceberg(data: bytes) -> object:
    place: Any = Folder({"metadata/v1.metadata.json": data, "m.avro": data})
    return IcebergSnapshot(place, list(place.list()), None, None).files


def _read_frame(data: bytes) -> object:
    async def read() -> object:
        reader = asyncio.StreamReader()
        reader.feed_data(data)
        reader.feed_eof()
        return await webhook_frames.read_frame(reader, 1000, 1000)

    return asyncio.run(read())


class _Table:
    readers = (lambda raw: text_values.hstore_pairs(raw.decode()), bytes, bytes)


def _pgoutput(data: bytes) -> object:
    table: Any = _Table()
    return pgoutput.decode(data, {1: table})


def _state(data: bytes) -> object:
    key, _, value = data.partition(b"|")
    return state_topic.decode(key, value)


def _config(data: bytes) -> object:
    key, _, value = data.partition(b"|")
    return config_records.decode(key, value)


def _status(data: bytes) -> object:
    key, _, value = data.partition(b"|")
    return status.decode(key, value)


def _text(parse: Callable[[str], object]) -> Callable[[bytes], object]:
    return lambda data: parse(data.decode("utf-8", "replace"))


def _expression(text: str) -> object:
    return parse(text)({"key": text, "value": {"a": [1, text], "b": {"c": None}}, "headers": {}, "partition": 1})


def _written(schema: Any, *records: Any, codec: str = "null") -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, schema, records, codec=codec)
    return out.getvalue()


def _value(schema: Any, record: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, record)
    return out.getvalue()


def _parquet() -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    out = io.BytesIO()
    pq.write_table(pa.table({"a": [1, 2, 3], "b": ["x", None, "z"], "c": [[1], [], [2, 3]]}), out)
    return out.getvalue()


_ROW: Final = {
    "type": "record",
    "name": "R",
    "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": "string"}],
}
_ROWS: Final = [{"a": each, "b": "x" * each} for each in range(20)]
_NESTED: Final = {
    "n": None,
    "a": [None, 3],
    "m": {"a": "b"},
    "d": Decimal("1.5"),
    "t": datetime(2026, 1, 1, tzinfo=UTC),
    "e": "B",
}
_RELATION: Final = b"R\0\0\0\1public\0t\0d\0\2\1id\0\0\0\0\x17\xff\xff\xff\xff\0n\0\0\0\0\x19\xff\xff\xff\xff"
_INSERT: Final = b'I\0\0\0\1N\0\3t\0\0\0\x0a"a"=>"b\\""n' + b"t\0\0\0\1x"
_BATCH: Final = (
    struct.Struct(">qiibIhiqqqhii").pack(0, 49 + 9, 0, 2, 0, 0x30, 0, 0, 0, 7, 1, -1, 1) + b"\x10\0\0\0\x08\0\0\0\1\0\0"
)
_DELTA: Final = (
    b'{"protocol":{"minReaderVersion":1}}\n{"metaData":{"schemaString":"{}"}}\n{"add":{"path":"a.parquet"}}\n'
)
_TABLE: Final = {"format-version": 2, "location": "s3://b/t", "current-snapshot-id": 1, "schemas": [{"fields": []}]}
_ICEBERG: Final = json.dumps({**_TABLE, "snapshots": [{"snapshot-id": 1, "manifest-list": "s3://b/t/m.avro"}]}).encode()
_KEY: Final = b"\0\0\0\1g" + b"i" * 16 + b"\0\0\0\1|"
_SNAPSHOT: Final = struct.pack(">hiiiqqq", 0, 1, 1, 1, 5, 0, 0) + b"\2" + struct.pack(">qqbh", 1, 2, 0, 1) + b"\0\0"
_JAVA: Final = (
    struct.pack("<QIIIIi", 1, 1, 0, 0, 0, 1)
    + struct.pack("<i", 1)
    + b"t"
    + struct.pack("<i", 9)
    + b"[[{},{}]]"
    + struct.pack("<i", 2)
    + b"vv"
)


def _offset_key(data: bytes) -> object:
    """As the projection, the view and a connector's reader take it. They agree on whose it is."""
    key, name = decode_key(data), connector_of(data)
    assert key is None or len(key[0].encode(errors="replace")) > 249 or name in (key[0], None)
    OffsetIndex().put(data, b"{}")
    SourceOffsets(ConnectorName("c")).put(data, b"{}")
    return parse_key(data)


def _offset_value(data: bytes) -> object:
    value = decode_value(data)
    return None if value is None else (encode_value(value), pack(value))


_BACKUP: Final = (
    backup_format.Copy("g", 1, "s", {"c": backup_format.ConnectorCopy({"a": "b"}, topics=(("t*",),))}, ())
    .dumps()
    .encode()
)
_AVRO: Final = container.ERRORS
_FILE: Final = (ConnectorError, OSError, *BROKEN)
_STRUCT: Final = (ValueError, struct.error)
_PG: Final = (KeyError, ValueError, IndexError, struct.error)

TARGETS: Final[dict[str, Target]] = {
    "Avro value": Target(_read_avro, [_value(_SCHEMA, _NESTED), b"\x02" * 300], _AVRO),
    "Avro schema and value": Target(
        _read_avro_with_its_schema, [json.dumps(_ROW).encode() + b"\0" + _value(_ROW, _ROWS[3]), b'["null","long"]\0\2\2'], _AVRO
    ),
    "Avro container": Target(_read_container, [_written(_ROW, *_ROWS), _written(_ROW, *_ROWS, codec="deflate")], _AVRO),
    "Avro file": Target(_read_file("avro"), [_written(_ROW, *_ROWS), _written(_ROW, *_ROWS, codec="xz")], _FILE),
    "Parquet file": Target(_read_file("parquet"), [_parquet()], _FILE),
    "CSV file": Target(_read_file("csv"), [b'a,b\n1,"x\ny"\n2,\n', b"\xef\xbb\xbfa\n1\n"], _FILE),
    "JSON lines": Target(_read_file("jsonl"), [b'{"a": [1, null]}\n\n"x"\n', b"[" * 2000], _FILE),
    "text file": Target(_read_file("text"), [b"a\r\nb\rc\n\n"], _FILE),
    "gzip file": Target(_read_file("text", "a.gz"), [gzip.compress(b"a\nb\n" * 50)], _FILE),
    "zip archive": Target(_read_file("csv", "a.zip"), [_zip(b"a,b\n1,2\n" * 50)], _FILE),
    "Zstandard file": Target(_read_file("text", "a.zst"), [_zstd(b"a\nb\n" * 50)], _FILE),
    "UTF-16 file": Target(_read_file("csv", encoding="utf-16"), ["a,b\n1,2\n".encode("utf-16")], _FILE),
    "xz file": Target(_read_file("text", "a.xz"), [lzma.compress(b"a\nb\n" * 50)], _FILE),
    "Delta log": Target(_delta, [_DELTA], (ConnectorError,)),
    "Iceberg metadata": Target(_iceberg, [_ICEBERG], (ConnectorError,)),
    "file offset": Target(lambda data: parse_file_offset(orjson.loads(data)), [b'{"etag":"a","byte":5}'], (ConnectorError, ValueError)),
    "pgoutput": Target(_pgoutput, [_RELATION, _INSERT, b"B" + b"\0" * 20, b"T\0\0\0\1\0\0\0\0\1", b"M\0" + b"\0" * 8 + b"p\0\0\0\0\1x"], _PG),
    "hstore": Target(_text(text_values.hstore_pairs), [b'"a"=>"b", "c"=>NULL'], (ValueError,)),
    "interval": Target(text_values.interval_micros, [b"1 year 2 mons -3 days 04:05:06.7"], (ValueError,)),
    "snapshot signal": Target(lambda data: parse_request("execute-snapshot", data.decode()), [b'{"data-collections":["public.t"]}'], (ValueError,)),
    "webhook frame": Target(_read_frame, [webhook_frames.pack({"a": 1}, b"body")], (webhook_frames.NotTrusted, EOFError, ValueError)),
    "webhook body": Target(request_parsing._parse, [b'{"a": [1, 2.5, "x"]}', b"[" * 300], (request_parsing.RequestRejected,)),
    "Java batch": Target(java_frames.decode_batch, [_JAVA], _STRUCT),
    "Java record batches": Target(java_frames.decode_encoded, [struct.pack("<QIIIi", 1, 0, 0, 0, 2) + b"[]" + struct.pack("<i", 0)], _STRUCT),
    "Protobuf index": Target(_indexes, [b"\0", b"\4\0\2"], (ConnectorError, IndexError)),
    "fetched batches": Target(_read_fetched, [_BATCH, _BATCH * 2], (ConnectorError, NotFetchable, ValueError)),
    "record batches": Target(lambda data: [*record_batches.parse(data)], [_BATCH, _BATCH * 2], (FencingError,)),
    "brokers' answers": Target(_read_answer, _ANSWERS, (MalformedResponse,)),
    "SCRAM": Target(_log_in, [b"r=NONCEabc,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096|v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="], (Fatal,)),
    "notice": Target(change_notifications.decode, [b'{"changed":["a"],"moved":[],"other":true}', b"[" * 2000]),
    "backup": Target(_text(backup_format.loads), [_BACKUP], (FencingError,)),
    "import": Target(lambda data: transfer.parse(data[1:].decode("utf-8", "replace"), ("yaml", "json", "properties")[(data or b"\0")[0] % 3]), [b"\0connectors:\n- name: a\n  config: {a: '1'}\n", b'\1[{"name":"a","config":{}}]', b"\2name=a\na=b\n"], (ConnectError,)),
    "pasted configuration": Target(_text(read_pasted), [b'{"name":"a","config":{"a":"b"}}', b"curl -d '{\"a\":\"b\"}' http://h/connectors/x/config", b"name: a\nconfig:\n  a: b\n", b"name=a\na=b"], (ConnectError,)),
    "share state": Target(_state, [_KEY + _SNAPSHOT], (ValueError,)),
    "config record": Target(_config, [b'connector-a|{"properties":{"a":"b"}}', b'task-a-0|{"properties":{}}', b'commit-a|{"tasks":1}', b'target-state-a|{"state":"PAUSED"}'], (FencingError,)),
    "status record": Target(_status, [b'status-connector-a|{"state":"RUNNING"}', b'status-task-a-0|{"state":"FAILED","generation":1}']),
    "source offset's key": Target(_offset_key, [b'["c",{"p":1}]', b' [ "\\u0063" , {"a":[{"b":null}]}]', '["c",{"p":1}]'.encode("utf-16")]),
    "source offset's value": Target(_offset_value, [b'{"n":1,"a":[1.5,"x",{"b":true}]}', b'{"a":' * 400 + b"1" + b"}" * 400]),
    "record counts": Target(lambda data: record_counts.decode([(record_counts.HEADER, data)]), [b'{"task":0,"generation":1,"attempt":1,"records":5,"skipped":0,"dead_letters":0,"sent":[0,5]}']),
    "shown record": Target(lambda data: Decoder(None, Scrubber(["hunter22"])).decode(data).as_json(1, 1), [b'{"a": "hunter22"}', b"\0\0\0\0\1a", b"[" * 200]),
    "expression": Target(_text(_expression), [b'value.a[1] like "*a?b" or not (key contains "x" and value.b.c == null)'], (Wrong, TooManySteps)),
    "references": Target(_text(lambda text: ConfigProviders({}).resolve({"a": text})), [b"${file:/a:b} ${env:X}"], (ConfigException,)),
    "properties": Target(_text(read_properties), [b"a=b\n# c\nd\\:e : f\\u0041\\\n g\n"], (MalformedLine,)),
    "literal": Target(_text(literals.parse), [b'[1, "a", {"b": 1.5e3}]', b"2024-01-31T10:11:12.123Z"]),
    "JAAS": Target(_text(security.login), [b'org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="b";'], (ValueError,)),
    "Java pattern": Target(_text(lambda text: java_pattern("regex", text)), [b"(?<a>x+)[^]a]\\k<a>"], (ConfigException, RecursionError)),
    "REST description": Target(_text(parse_rest_config), [b'{"client": {"base_url": "http://127.0.0.1"}, "resources": ["a"]}'], (ConnectorError,)),
    "DDL": Target(_text(parse_ddl), [b"a INT, b ARRAY<STRUCT<c: STRING>>, `d``e` DECIMAL(10, 2)"], (ConnectorError,)),
}  # fmt: skip
