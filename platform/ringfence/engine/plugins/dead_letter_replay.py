"""Processes dead letters with a connector's current chain, in the plugin process. It writes nothing to Kafka."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, cast

from ringfence.connectors.api import ConfigException, ConnectorError
from ringfence.engine.plugins.call_server import decode_bytes, encode_bytes
from ringfence.engine.plugins.errors import BadRequest
from ringfence.engine.plugins.record_display import readable
from ringfence.engine.spark.task_process import Conversion
from ringfence.fencing.clock import SYSTEM_CLOCK
from ringfence.fencing.ids import ConnectorName, TaskId
from ringfence.fencing.metrics import Measures
from ringfence.fencing.records.dead_letter import DeadLetter, NotExact
from ringfence.fencing.records.error_handling import ErrorPolicy, RecordErrors
from ringfence.fencing.records.topic_creation import TopicCreationGroups
from ringfence.fencing.records.topic_name_check import check_name
from ringfence.fencing.transactions.record_columns import Record

_ERROR_LIMIT: Final = 1000
_LONGEST_RETRY_S: Final = 3.0


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of the chain, with resolved references."""

    connector_config: Mapping[str, str]
    worker_settings: Mapping[str, str]


def convert_letters(
    settings: Settings,
    letters: Sequence[Mapping[str, Any]],
    reserved_topics: Collection[str],
    hide: Callable[[str], str],
) -> list[dict[str, object]]:
    """Return `{"call", "why", "creation"}` for each: the record to produce, null if a transform dropped it; why: the
    error, or ""; creation: how the connector's rules create its topic, null if they do not. The rules are applied here
    because their patterns are a user's: one can take for ever.

    reserved_topics: topics that no record may be written to. Raises `BadRequest` if the chain cannot be created.
    """
    try:
        steps = Conversion(settings)
    except ConfigException as error:
        raise BadRequest(hide(str(error))) from error
    config = settings.connector_config
    policy = ErrorPolicy(retry_s=min(_LONGEST_RETRY_S, ErrorPolicy.of(config).retry_s))
    task = TaskId(ConnectorName(config["name"]), 0)
    errors = RecordErrors(policy, steps, task, Measures(), SYSTEM_CLOCK, time.sleep, hide)

    def check(topic: str) -> None:
        check_name(topic)
        if topic in reserved_topics:
            raise ConnectorError(f"The record would be written to {topic}, which is reserved: change its topic")

    rules = TopicCreationGroups.of(config, settings.worker_settings)
    specs: dict[str, dict[str, object]] = {}
    conversions = []
    for each in letters:
        conversion = _one(errors, _letter(each), check, hide)
        call = cast("Mapping[str, Any] | None", conversion["call"])
        if call is not None and rules is not None and call["topic"] not in specs:
            specs[call["topic"]] = asdict(rules.spec(call["topic"]))
        conversions.append({**conversion, "creation": None if call is None else specs.get(call["topic"])})
    return conversions


def _one(
    errors: RecordErrors, letter: DeadLetter, check: Callable[[str], None], hide: Callable[[str], str]
) -> dict[str, object]:
    try:
        call = errors.produce_of(letter.record(), check)
    except NotExact as error:
        return {"call": None, "why": str(error)}
    except Exception as error:  # noqa: BLE001 - foreign code: its error is the answer
        notes = " ".join(getattr(error, "__notes__", ()))
        text = str(error) if isinstance(error, ConnectorError) else f"{type(error).__name__}: {error}"
        return {"call": None, "why": readable(hide(f"{text} {notes}".strip()))[:_ERROR_LIMIT]}
    return {"call": None if call is None else _describe(call), "why": ""}


def _letter(letter: Mapping[str, Any]) -> DeadLetter:
    partition, offset = letter["place"]
    headers = [(str(name), decode_bytes(value)) for name, value in letter["headers"]]
    return DeadLetter(
        (partition, offset), letter["timestamp_ms"], decode_bytes(letter["key"]), decode_bytes(letter["value"]), headers
    )


def _describe(record: Record) -> dict[str, object]:
    topic, value, key, partition, timestamp, headers = record
    pairs = [[name, _text(each)] for name, each in headers or ()]
    return {
        "topic": topic,
        "value": _text(value),
        "key": _text(key),
        "partition": partition,
        "timestamp": timestamp,
        "headers": pairs,
    }


def _text(data: object) -> str | None:
    if data is not None and not isinstance(data, bytes | bytearray | memoryview):
        raise ConnectorError(f"A converter made a value of type {type(data).__name__}, not bytes")
    return encode_bytes(data)
