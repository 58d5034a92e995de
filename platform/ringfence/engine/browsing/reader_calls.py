"""The calls of a worker to its reader processes, which decode, filter and show the records of topics.

A reader gets bytes and returns text: it knows no address of Kafka and no login. Bytes are in Base64.

Values with a schema of a Schema Registry are decoded with it: Avro, JSON Schema, Protobuf. Secrets of the connector's
configuration are removed first, so that neither a page nor a filter reveals them. Whatever a record contains, it is
decoded: what cannot be read as a structure is shown as text or hexadecimal, with the reason. One record never hides a
page.
"""

import datetime as dt
import decimal
import json
import uuid
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, cast

from ringfence.connectors.api import ConfigException, ConnectorError
from ringfence.connectors.converters.registry.reading import SchemaReader, schema_id
from ringfence.connectors.sdk.values.nesting import DEEPEST, is_deep
from ringfence.engine.browsing import expression
from ringfence.engine.browsing.expression import TooManySteps
from ringfence.engine.plugins.call_server import ProcessCall, decode_bytes
from ringfence.engine.plugins.errors import BadRequest
from ringfence.engine.plugins.secret_removal import Scrubber
from ringfence.requests.request import Answer, MalformedRequest

_SHOWN: Final = 8192
_HEX_BYTES: Final = 512
_PLAIN: Final = str.maketrans("", "", "\n\r\t")
_MOST_INDENTED: Final = 1 << 20
"""Longer texts get no line breaks: the breaks and blanks of a deep structure are many times its content."""
_TOO_DEEP: Final = f"it is nested more than {DEEPEST} levels deep"
_KINDS: Final = {"AVRO": "Avro", "JSON": "JSON Schema", "PROTOBUF": "Protobuf"}


@dataclass(frozen=True, slots=True)
class DecodedValue:
    """kind: null, empty, JSON, JSON with schema, string, hex, or the type of the registry's schema.

    value: for filters; text: for people; schema: its id or name; problem: why schema or structure were not used.
    """

    kind: str
    value: Any
    text: str
    schema: str = ""
    problem: str = ""

    def as_json(self, size: int, read: int) -> dict[str, object]:
        """Return the JSON for a page. size: of the whole value, -1 for null; read: how much was decoded, in bytes."""
        cut = len(self.text) > _SHOWN or read < size
        return {
            "kind": self.kind,
            "text": self.text[:_SHOWN],
            "size": size,
            "cut": cut,
            "schema": self.schema,
            "problem": self.problem,
        }


class Decoder:
    """Decodes the keys, or the values, of one question."""

    def __init__(self, reader: SchemaReader | None, scrubber: Scrubber, why_no_reader: str = "") -> None:
        self._reader = reader
        self._scrubber = scrubber
        self._why = why_no_reader

    def decode(self, data: bytes | None) -> DecodedValue:
        if data is None:
            return DecodedValue("null", None, "null")
        if not data:
            return DecodedValue("empty", "", "")
        try:
            return self._decode(data)
        except Exception as error:  # noqa: BLE001 - whatever a foreign record makes a library raise
            return self._hex(data, "", f"The value cannot be decoded ({type(error).__name__}).")

    def _decode(self, data: bytes) -> DecodedValue:
        number = schema_id(data)
        problem = ""
        if number is not None:
            if self._reader is not None:
                try:
                    read_value = self._reader.read(data)
                except ConnectorError as error:
                    problem = str(error)
                else:
                    schema = f"{read_value.name or 'schema'} (id {read_value.id})"
                    if not is_deep(read_value.value):
                        return self._structure(_KINDS[read_value.kind], _plain(read_value.value), schema)
                    problem = f"The value is not shown with its schema: {_TOO_DEEP}."
            problem = problem or self._why
        text = _as_text(data)
        if text is not None:
            return self._of_text(text)
        return self._hex(data, "" if number is None else f"schema (id {number})", problem)

    def _hex(self, data: bytes, schema: str, problem: str) -> DecodedValue:
        value = self._scrubber.value(data)
        raw = value if isinstance(value, bytes) else data
        tail = " …" if len(raw) > _HEX_BYTES else ""
        return DecodedValue("hex", raw.hex(), raw[:_HEX_BYTES].hex(" ") + tail, schema, problem)

    def _of_text(self, text: str) -> DecodedValue:
        try:
            document = json.loads(text)
            if is_deep(document):
                raise RecursionError
        except ValueError:
            return self._string(text)
        except RecursionError:
            return self._string(text, f"The value is not shown as JSON: {_TOO_DEEP}.")
        if isinstance(document, dict) and document.keys() == {"schema", "payload"}:
            schema = document["schema"]
            name = schema.get("name") or schema.get("type") if isinstance(schema, dict) else None
            return self._structure("JSON with schema", document["payload"], str(name or "schemaless"))
        return self._structure("JSON", document, "")

    def _structure(self, kind: str, value: Any, schema: str) -> DecodedValue:
        clean = self._scrubber.value(value)
        text = _write(clean, ascii_only=False)
        if not _is_printable(text):
            text = _write(clean, ascii_only=True)  # escape sequences stay escaped
        return DecodedValue(kind, clean, text, schema)

    def _string(self, text: str, problem: str = "") -> DecodedValue:
        clean = self._scrubber.text(text)
        return DecodedValue("string", clean, clean, "", problem)


def _write(value: Any, *, ascii_only: bool) -> str:
    pieces: list[str] = []
    size = 0
    for piece in json.JSONEncoder(indent=2, ensure_ascii=ascii_only, default=str).iterencode(value):
        pieces.append(piece)
        size += len(piece)
        if size > _MOST_INDENTED:
            return json.dumps(value, ensure_ascii=ascii_only, default=str)
    return "".join(pieces)


def _is_printable(text: str) -> bool:
    return text.translate(_PLAIN).isprintable()


def _as_text(data: bytes) -> str | None:
    """Return UTF-8 text if all of it is printable, else None. A character that is cut off at the end is left out."""
    for shorter in range(4):
        try:
            text = data[: len(data) - shorter].decode()
        except UnicodeDecodeError:
            continue
        return text if _is_printable(text) else None
    return None


_PLAINLY: Final[dict[type, Callable[[Any], object]]] = {
    bytes: lambda value: value.hex(),
    decimal.Decimal: str,
    uuid.UUID: str,
    dt.datetime: dt.datetime.isoformat,
    dt.date: dt.date.isoformat,
    dt.time: dt.time.isoformat,
}


def _plain(value: Any) -> Any:
    """Return the value with types that JSON has. value: not deep."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    convert = _PLAINLY.get(type(value))
    return convert(value) if convert else value


_NO_REGISTRY: Final = "No Schema Registry is known for this topic: name one."

Json = dict[str, object]
Record = Mapping[str, Any]


class ReaderState:
    """reading: how the process decodes and filters now."""

    def __init__(self) -> None:
        self.reading: Reading | None = None

    def require_reading(self) -> "Reading":
        """Raises `BadRequest`."""
        if self.reading is None:
            raise BadRequest("The reading was not opened.")
        return self.reading


class ReaderCall(ProcessCall[Answer]):
    """A call to a reader process."""

    @abstractmethod
    def answer(self, state: ReaderState) -> Answer:
        """Answer it in the reader process, by a JSON value. Raises `BadRequest`."""


@dataclass(frozen=True)
class OpenReading(ReaderCall[None]):
    """Set how the following calls decode and filter. It replaces the previous one.

    key, value: settings of a converter with a Schema Registry, without prefix; {} for none. explicit: whether a user
    named the registry: then an error in it is the answer. why: why no registry is used. secrets: values that are
    removed. exact_key, contains, where: see `engine.questions.ReadRecords`.
    """

    name: ClassVar[str] = "open"
    key: Mapping[str, str]
    value: Mapping[str, str]
    explicit: bool
    secrets: Sequence[str]
    exact_key: str | None = None
    contains: str = ""
    where: str = ""
    why: str = ""

    def answer(self, state: ReaderState) -> None:
        state.reading = Reading(self)  # schemas are requested for each page: a registry that was away is back


@dataclass(frozen=True)
class SelectRecords(ReaderCall[list[bool]]):
    """Return which records match. Each has `partition`, `offset`, `timestamp_ms`, `key`, `value`, `headers`."""

    name: ClassVar[str] = "select"
    records: Sequence[Mapping[str, object]]

    def answer(self, state: ReaderState) -> list[bool]:
        return [state.require_reading().matches(each) for each in _records(self.records)]


@dataclass(frozen=True)
class ShowRecords(ReaderCall[list[Json]]):
    """Return `key`, `value` and `headers` of each record for display. Each has also `key_size` and `value_size`."""

    name: ClassVar[str] = "show"
    records: Sequence[Mapping[str, object]]

    def answer(self, state: ReaderState) -> list[Json]:
        return [state.require_reading().show(each) for each in _records(self.records)]


def _records(records: Sequence[Mapping[str, object]]) -> Sequence[Record]:
    return cast("Sequence[Record]", records)


class Reading:
    """How records are decoded and filtered. Raises `BadRequest` for what a user has named."""

    def __init__(self, call: OpenReading) -> None:
        self.call = call
        scrubber = Scrubber(call.secrets)
        self._key = _decoder(call, call.key, scrubber)
        self._value = _decoder(call, call.value, scrubber)
        self._header = Decoder(None, scrubber)
        self._scrubber = scrubber
        self._needle = call.contains.casefold()
        try:
            self._condition = expression.parse(call.where) if call.where.strip() else None
        except expression.Wrong as error:
            raise BadRequest(f"where: {error}.") from error

    def matches(self, record: Record) -> bool:
        key = self._decode(self._key, record["key"])
        if self.call.exact_key is not None and not _is_key(key, self.call.exact_key):
            return False
        if not self._needle and self._condition is None:
            return True
        value = self._decode(self._value, record["value"])
        headers = [(str(name), self._decode(self._header, data)) for name, data, _ in record["headers"]]
        if self._needle:
            texts = [key.text, value.text, *(text for name, each in headers for text in (name, each.text))]
            if not any(self._needle in each.casefold() for each in texts):
                return False
        if self._condition is None:
            return True
        place = {"partition": record["partition"], "offset": record["offset"], "timestamp": record["timestamp_ms"]}
        names = {"key": key.value, "value": value.value, "headers": {name: each.value for name, each in headers}}
        try:
            return self._condition({**names, **place})
        except TooManySteps as error:
            raise BadRequest(f"where: {error}") from error

    def show(self, record: Record) -> dict[str, object]:
        return {
            "key": self._show(self._key, record["key"], record["key_size"]),
            "value": self._show(self._value, record["value"], record["value_size"]),
            "headers": [
                {"name": name, **self._show(self._header, data, size)} for name, data, size in record["headers"]
            ],
        }

    def _show(self, decoder: Decoder, base64_text: str | None, size: int) -> dict[str, object]:
        data = decode_bytes(base64_text)
        return self._decode(decoder, base64_text).as_json(size, -1 if data is None else len(data))

    def _decode(self, decoder: Decoder, base64_text: str | None) -> DecodedValue:
        """Decode a part of a record. If that fails, it is text: one record hides no other."""
        data = decode_bytes(base64_text)
        try:
            return decoder.decode(data)
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - anybody wrote it
            text = self._scrubber.text((data or b"").decode("utf-8", "replace"))
            return DecodedValue("string", text, text, "", f"It cannot be decoded ({type(error).__name__}).")


def _decoder(call: OpenReading, settings: Mapping[str, str], scrubber: Scrubber) -> Decoder:
    if not settings:
        return Decoder(None, scrubber, call.why or _NO_REGISTRY)
    try:
        return Decoder(SchemaReader(settings), scrubber)
    except (ConfigException, ConnectorError) as error:
        if call.explicit:
            raise BadRequest(f"registry: {error}") from error
        return Decoder(None, scrubber, scrubber.text(str(error)))


def _is_key(value: DecodedValue, key: str) -> bool:
    return key == value.value if isinstance(value.value, str) else key == value.text or key == str(value.value)


READER_CALLS: Final[tuple[type[ReaderCall[object]], ...]] = (OpenReading, SelectRecords, ShowRecords)
_BY_NAME: Final = {kind.name: kind for kind in READER_CALLS}


def parse(name: str, body: Mapping[str, object]) -> ReaderCall[object]:
    """Parse a call from the pipe. Raises `MalformedRequest`."""
    if name not in _BY_NAME:
        raise MalformedRequest(f"Unknown call {name!r}")
    return _BY_NAME[name].from_wire(body)
