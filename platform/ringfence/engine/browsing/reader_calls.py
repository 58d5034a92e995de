"""The calls of a worker to its reader processes, which decode, filter and show the records of topics.

A reader gets bytes and returns text: it knows no address of Kafka and no login. Bytes are in Base64.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, cast

from ringfence.connectors.api import ConfigException, ConnectorError
from ringfence.connectors.converters.registry.reading import SchemaReader
from ringfence.engine.base64_text import decode
from ringfence.engine.browsing import expression
from ringfence.engine.browsing.expression import TooManySteps
from ringfence.engine.browsing.value_decoding import DecodedValue, Decoder
from ringfence.engine.plugins.call_server import ProcessCall
from ringfence.engine.plugins.errors import BadRequest
from ringfence.engine.plugins.secret_removal import Scrubber
from ringfence.requests.request import Answer, MalformedRequest

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
        data = decode(base64_text)
        return self._decode(decoder, base64_text).as_json(size, -1 if data is None else len(data))

    def _decode(self, decoder: Decoder, base64_text: str | None) -> DecodedValue:
        """Decode a part of a record. If that fails, it is text: one record hides no other."""
        data = decode(base64_text)
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
