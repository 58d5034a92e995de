"""The calls of a worker to its reader processes, which decode, filter and show the records of topics.

A reader gets bytes and returns text: it knows no address of Kafka and no login. Bytes are in Base64.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from ringfence.requests.plugin_calls import Json, PluginCall
from ringfence.requests.request import MalformedRequest

Header = Sequence[str | int | None]
"""Name, value, and the size of the whole value."""


@dataclass(frozen=True)
class OpenReading(PluginCall[None]):
    """Set how the following calls decode and filter. It replaces the previous one.

    key, value: settings of a converter with a Schema Registry, without prefix; {} for none. explicit: whether a user
    named the registry: then an error in it is the answer. why: why no registry is used. secrets: values that are
    removed. exact_key, contains, where: see `requests.topic_questions.ReadRecords`.
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


@dataclass(frozen=True)
class SelectRecords(PluginCall[list[bool]]):
    """Return which records match. Each has `partition`, `offset`, `timestamp_ms`, `key`, `value`, `headers`."""

    name: ClassVar[str] = "select"
    records: Sequence[Mapping[str, object]]


@dataclass(frozen=True)
class ShowRecords(PluginCall[list[Json]]):
    """Return `key`, `value` and `headers` of each record for display. Each has also `key_size` and `value_size`."""

    name: ClassVar[str] = "show"
    records: Sequence[Mapping[str, object]]


READER_CALLS: Final[tuple[type[PluginCall[object]], ...]] = (OpenReading, SelectRecords, ShowRecords)
_BY_NAME: Final = {kind.name: kind for kind in READER_CALLS}


def parse(name: str, body: Mapping[str, object]) -> PluginCall[object]:
    """Parse a call from the pipe. Raises `MalformedRequest`."""
    if name not in _BY_NAME:
        raise MalformedRequest(f"Unknown call {name!r}")
    return _BY_NAME[name].from_wire(body)
