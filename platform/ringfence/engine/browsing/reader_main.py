"""The reader process: decodes, filters and shows records. `readers.Readers` starts it; `call_server` has its protocol.

What is decoded was written by anybody, with schemas of anybody's registry. So this process has no login for Kafka and
no settings of the platform but the limits for outgoing connections, it may use only so much memory, and it is killed if
it is late.
"""

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

from ringfence.connectors.api import ConfigException, ConnectorError
from ringfence.connectors.converters.registry.reading import SchemaReader
from ringfence.connectors.converters.registry.settings import load
from ringfence.engine.base64_text import decode
from ringfence.engine.browsing import expression
from ringfence.engine.browsing.expression import TooManySteps
from ringfence.engine.browsing.value_decoding import DecodedValue, Decoder
from ringfence.engine.plugins.call_server import serve
from ringfence.engine.plugins.errors import BadRequest
from ringfence.engine.plugins.secret_removal import Scrubber
from ringfence.requests.plugin_calls import PluginCall
from ringfence.requests.reader_calls import OpenReading, SelectRecords, ShowRecords, parse

_NO_REGISTRY: Final = "No Schema Registry is known for this topic: name one."

Record = Mapping[str, Any]


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


class ReaderCalls:
    """The calls of a reader process. One host uses it at a time."""

    subject: Final = "The reader's"

    def __init__(self, _emit: object) -> None:
        self._reading: Reading | None = None

    def parse(self, name: str, args: Mapping[str, object]) -> PluginCall[Any]:
        return parse(name, args)

    def answer(self, call: PluginCall[Any]) -> object:
        if isinstance(call, OpenReading):
            self._reading = Reading(call)  # schemas are requested for each page: a registry that was away is back
            return None
        reading = self._reading
        if reading is None:
            raise BadRequest("The reading was not opened.")
        if isinstance(call, SelectRecords):
            return [reading.matches(each) for each in _records(call.records)]
        assert isinstance(call, ShowRecords)
        return [reading.show(each) for each in _records(call.records)]

    def keeps(self, _lane: str) -> bool:
        return True

    def redactor(self, args: Mapping[str, object]) -> Callable[[str], str]:
        """Return a function that drops everything: what is decoded is not for logs and errors."""
        secrets = args.get("secrets")
        if self._reading is not None:
            secrets = self._reading.call.secrets
        return Scrubber(cast("Sequence[str]", secrets) if isinstance(secrets, list | tuple) else ()).text


def _records(records: Sequence[Mapping[str, object]]) -> Sequence[Record]:
    return cast("Sequence[Record]", records)


def _load_ahead() -> None:
    """Load what a record with a schema needs, beside the first call: most pages do not need it."""
    threading.Thread(target=_load, name="load", daemon=True).start()


def _load() -> None:
    for module in ("confluent_kafka.schema_registry", "fastavro"):
        with contextlib.suppress(ConfigException):  # without the extra, the first record's answer says so
            load(module)


if __name__ == "__main__":
    serve(ReaderCalls, _load_ahead)
