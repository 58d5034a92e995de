"""The calls of a worker to its plugin processes, as sent through the pipe: one class for each, with its answer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from ringfence.requests.request import Answer, MalformedRequest, Request

Config = Mapping[str, str]
Json = dict[str, object]
Pairs = Sequence[Sequence[Mapping[str, object] | None]]
"""Source partitions, each with its offset or None."""


@dataclass(frozen=True)
class PluginCall(Request[Answer]):
    """name: the method of `engine.plugins.operations.Operations` that answers it, with the fields as arguments.

    leaves_nothing: it may read the source, so its process is ended afterwards, with all that the plugin left there.
    """

    leaves_nothing: ClassVar[bool] = False


@dataclass(frozen=True)
class ListPlugins(PluginCall[Json]):
    name: ClassVar[str] = "plugins"


@dataclass(frozen=True)
class ReadConfigKeys(PluginCall[list[Json]]):
    name: ClassVar[str] = "config_keys"
    plugin: str
    common: bool = False
    version: str | None = None


@dataclass(frozen=True)
class ReadCommonKeys(PluginCall[list[Json]]):
    name: ClassVar[str] = "common_keys"


@dataclass(frozen=True)
class ValidateConfig(PluginCall[Json]):
    name: ClassVar[str] = "validate"
    plugin: str
    config: Mapping[str, str | None]
    exactly_once: bool


@dataclass(frozen=True)
class ExamineSource(PluginCall[Json | None]):
    name: ClassVar[str] = "examine"
    config: Config


@dataclass(frozen=True)
class ReadExactlyOnceSupport(PluginCall[tuple[str, bool, str]]):
    """The answer arrives as a list of three, since JSON has no tuples."""

    name: ClassVar[str] = "exactly_once_support"
    config: Config


@dataclass(frozen=True)
class ReadGuarantee(PluginCall[dict[str, str]]):
    name: ClassVar[str] = "guarantee"
    config: Config
    exactly_once: bool


@dataclass(frozen=True)
class CheckIsJava(PluginCall[bool]):
    name: ClassVar[str] = "is_java"
    plugin: str


@dataclass(frozen=True)
class FindSlot(PluginCall[str | None]):
    name: ClassVar[str] = "find_slot"
    config: Config


@dataclass(frozen=True)
class CheckOffsets(PluginCall[bool]):
    name: ClassVar[str] = "alter_offsets"
    config: Config
    offsets: Pairs


@dataclass(frozen=True)
class PreviewRecords(PluginCall[Json]):
    name: ClassVar[str] = "preview"
    leaves_nothing: ClassVar[bool] = True
    config: Config
    offsets: Pairs
    worker: Config
    secret: Sequence[str]
    bounds: Mapping[str, float]


@dataclass(frozen=True)
class TryChain(PluginCall[Json]):
    name: ClassVar[str] = "try_transforms"
    config: Config
    record: Mapping[str, object]
    worker: Config
    secret: Sequence[str]


@dataclass(frozen=True)
class ConvertDeadLetters(PluginCall[list[Json]]):
    name: ClassVar[str] = "replay"
    leaves_nothing: ClassVar[bool] = True
    config: Config
    letters: Sequence[Mapping[str, object]]
    worker: Config
    secret: Sequence[str]
    refused: Sequence[str]


@dataclass(frozen=True)
class ReadRecordPositions(PluginCall[Json | None]):
    name: ClassVar[str] = "record_positions"
    config: Config


@dataclass(frozen=True)
class CountRecords(PluginCall[list[int | None]]):
    name: ClassVar[str] = "count_records"
    leaves_nothing: ClassVar[bool] = True
    config: Config
    offsets: Pairs


@dataclass(frozen=True)
class StartInstance(PluginCall[str]):
    """token: of this start; a `StopInstance` with an earlier one is ignored. The answer is the running version."""

    name: ClassVar[str] = "start"
    connector: str
    config: Config
    offsets: Pairs
    token: int
    grant: Mapping[str, object] | None = None


@dataclass(frozen=True)
class MakeTaskConfigs(PluginCall[list[dict[str, str]]]):
    name: ClassVar[str] = "task_configs"
    connector: str
    max_tasks: int
    offsets: Pairs | None = None


@dataclass(frozen=True)
class StopInstance(PluginCall[None]):
    name: ClassVar[str] = "stop"
    connector: str
    token: int


PLUGIN_CALLS: Final[tuple[type[PluginCall[object]], ...]] = (
    ListPlugins, ReadConfigKeys, ReadCommonKeys, ValidateConfig, ExamineSource, ReadExactlyOnceSupport, ReadGuarantee,
    CheckIsJava, FindSlot, CheckOffsets, PreviewRecords, TryChain, ConvertDeadLetters, ReadRecordPositions,
    CountRecords, StartInstance, MakeTaskConfigs, StopInstance,
)  # fmt: skip
_BY_NAME: Final = {kind.name: kind for kind in PLUGIN_CALLS}


def parse(name: str, body: Mapping[str, object]) -> PluginCall[object]:
    """Parse a call from the pipe. Raises `MalformedRequest`."""
    if name not in _BY_NAME:
        raise MalformedRequest(f"Unknown call {name!r}")
    return _BY_NAME[name].from_wire(body)
