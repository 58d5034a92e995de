"""The calls of a worker to its plugin processes: one class for each, with its fields and its answer.

The worker makes a call and sends it through the pipe (`PluginHost.ask`); the plugin process parses it and answers it.
"""

import inspect
import json
import os
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import ClassVar, Final, cast

from ringfence.connectors.api import (
    ConfigException,
    ConnectorError,
    Examination,
    SourceConnector,
    SourceOffset,
    SourcePartition,
)
from ringfence.connectors.common_settings import CONNECTOR_CLASS, PLUGIN_VERSION, of_a_part, source_config_def
from ringfence.connectors.compatibility import read_report
from ringfence.connectors.config_providers import PROVIDERS, ConfigProviders, ResolvedConfig
from ringfence.connectors.java.connector import JavaSourceConnector
from ringfence.connectors.java.files import find_refused_files
from ringfence.connectors.plugins import PluginRegistry
from ringfence.connectors.sdk import files
from ringfence.engine.plugins import validation
from ringfence.engine.plugins.call_server import ProcessCall
from ringfence.engine.plugins.errors import BadRequest, OffsetsRefused, PluginError
from ringfence.engine.plugins.instances import InstanceRunner, InstanceStart
from ringfence.engine.plugins.preview import Bounds, TransformationChain, preview, sample, walk_in_java
from ringfence.engine.plugins.secret_removal import Redactor, Scrubber
from ringfence.requests.request import Answer, MalformedRequest, always

Config = Mapping[str, str]
Json = dict[str, object]
Offsets = Sequence[tuple[Mapping[str, object], Mapping[str, object] | None]]
"""Source partitions, each with its offset or None."""
Pairs = Sequence[Sequence[Mapping[str, object] | None]]
"""The same in a call."""

_READY_BYTES: Final = dict.fromkeys(("key.converter", "value.converter"), "ByteArrayConverter")
_DOCUMENTATION_LIMIT: Final = 8000


class PluginRuntime:
    """The plugins of this process, and what its calls have in common. One object per process."""

    def __init__(self, registry: PluginRegistry, emit: Callable[[dict[str, object]], None]) -> None:
        self.registry = registry
        self.instances = InstanceRunner(registry, emit)
        self._providers = ConfigProviders(json.loads(os.environ.get(PROVIDERS, "{}")))

    def connector(self, config: Mapping[str, str | None]) -> SourceConnector:
        """Return a new connector of the class that the configuration names. Raises `PluginError`."""
        return validation.find_for(self.registry, config).cls()

    def attempt(self, config: Mapping[str, str | None]) -> tuple[ResolvedConfig, dict[str, str]]:
        """Return the resolved configuration as far as possible, and errors by setting."""
        return self._providers.attempt({name: value for name, value in config.items() if value is not None})

    def resolve(self, config: Config) -> ResolvedConfig:
        """Return the resolved configuration. Raises `PluginError`, also for a file that must not be read."""
        try:
            resolution = self._providers.resolve(config)
        except ConfigException as error:
            raise PluginError(str(error)) from error
        for text in files.find_refused(resolution.config).values():
            raise PluginError(text)
        return resolution

    def find_closed(self, plugin: str, config: Config) -> dict[str, str]:
        """Return, by setting, why the file that it names must not be read."""
        java = validation.is_java(validation.find(self.registry, plugin))
        return {**(find_refused_files(config) if java else {}), **files.find_refused(config)}

    def scrubber(self, config: Config, resolution: ResolvedConfig, secret: Sequence[str]) -> Scrubber:
        """Return a scrubber for the values of config providers, of passwords by definition, and of the `secret`
        settings.
        """
        passwords = validation.redactor(validation.find_for(self.registry, config), resolution.config).secrets
        values = [resolution.config[name] for name in secret if name in resolution.config]
        return Scrubber([*passwords, *values, *resolution.secret_values.values()])

    def redactor(self, args: Mapping[str, object]) -> Callable[[str], str]:
        """Return a function that hides the secrets of a call's config, as far as its connector is found."""
        config = args.get("config")
        name = config.get(CONNECTOR_CLASS) if isinstance(config, dict) else args.get("connector")
        if isinstance(config, dict) and name:
            resolution, _ = self.attempt(config)
            try:
                secrets = validation.redactor(validation.find_nearest(self.registry, config), config)
                return lambda text: secrets(resolution.hide(text))
            except PluginError:
                return str  # no such connector: no plugin has seen the config
            except Exception:  # noqa: BLE001 - the plugin's definition of its settings fails
                everything = Redactor(config, None)
                return lambda text: everything(resolution.hide(text))
        return self.instances.redactor(str(name)) if name else str


@dataclass(frozen=True)
class PluginCall(ProcessCall[Answer]):
    """A call to a plugin process. `config` and `plugin` say in which environment (`Environments.find_for_call`)."""

    @abstractmethod
    def answer(self, runtime: PluginRuntime) -> Answer:
        """Answer it in the plugin process, by a JSON value. Raises `PluginError`."""


@dataclass(frozen=True)
class ListPlugins(PluginCall[Json]):
    """Return all connectors that can run, and why others cannot."""

    name: ClassVar[str] = "plugins"

    def answer(self, runtime: PluginRuntime) -> Json:
        runtime.registry.follow_plugin_path()
        return {
            "plugins": [
                {
                    "class": plugin.class_name,
                    "type": plugin.type,
                    "java": validation.is_java(plugin),
                    "version": plugin.version,
                    "versions": [each.version for each in runtime.registry.versions(plugin)],
                    "names": sorted(plugin.names),
                    "documentation": documentation_of(plugin.cls),
                    "exactly_once_report": _summary(plugin.cls),
                    "preview_while_running": plugin.cls.preview_while_running,
                    "catalog": plugin.cls.catalog.as_json() if plugin.cls.catalog is not None else None,
                }
                for plugin in runtime.registry.plugins
            ],
            "broken": runtime.registry.broken,
        }


def _summary(cls: type) -> dict[str, object] | None:
    """Return the summary of the compatibility report if it is valid for the installed code and nothing failed."""
    report = read_report(cls)
    return report.summary() if report is not None and report.passed else None


@lru_cache(maxsize=256)
def documentation_of(cls: type) -> str:
    """Return plain text or Markdown; "" if there is none."""
    try:
        text = (Path(inspect.getfile(cls)).parent / "README.md").read_text(encoding="utf-8")
    except (OSError, TypeError, UnicodeDecodeError):  # created in memory, or inside an archive
        text = ""
    if not text.lower().find(cls.__name__.removesuffix("Connector").lower()) >= 0:
        text = ""  # the README of a folder with many plugins is about something else
    return (text or inspect.cleandoc(cls.__doc__ or ""))[:_DOCUMENTATION_LIMIT]


@dataclass(frozen=True)
class ReadConfigKeys(PluginCall[list[Json]]):
    """Return the key infos of the connector's own settings, by any of its names; with `common`, also of those that all
    source connectors have.

    version: a version or a range; None for the newest. Raises `BadRequest` if it is not installed.
    """

    name: ClassVar[str] = "config_keys"
    plugin: str
    common: bool = False
    version: str | None = None

    def answer(self, runtime: PluginRuntime) -> list[Json]:
        version = {} if self.version is None else {PLUGIN_VERSION: self.version}
        info = validation.find_version(runtime.registry, {CONNECTOR_CLASS: self.plugin, **version})
        own = info.cls.config_def()
        if not self.common:
            return own.infos()
        every = runtime.registry.versions(validation.find(runtime.registry, self.plugin))
        framework = validation.common_keys(every)
        mine = [key.info() for key in own.keys.values() if key.name not in framework.keys]
        return [*framework.infos(), *mine]


@dataclass(frozen=True)
class ReadCommonKeys(PluginCall[list[Json]]):
    """Return the key infos of the settings that all source connectors have."""

    name: ClassVar[str] = "common_keys"

    def answer(self, runtime: PluginRuntime) -> list[Json]:
        return source_config_def({}).infos()


@dataclass(frozen=True)
class ValidateConfig(PluginCall[Json]):
    """Return Kafka Connect's validate body: `name`, `error_count`, `groups`, `configs` of `definition` and `value`.

    The resolved configuration is validated; the answer contains the configuration as it was given. exactly_once:
    whether the cluster runs with `exactly.once.source.support=enabled`.
    """

    name: ClassVar[str] = "validate"
    plugin: str
    config: Mapping[str, str | None]
    exactly_once: bool = always(True)

    def answer(self, runtime: PluginRuntime) -> Json:
        nulls = {name: value for name, value in self.config.items() if value is None}
        resolution, errors = runtime.attempt(self.config)
        file_errors = {
            name: resolution.hide(text) for name, text in runtime.find_closed(self.plugin, resolution.config).items()
        }
        # These are excluded: a plugin that connects to its source would have its client read them.
        settings = {name: value for name, value in {**resolution.config, **nulls}.items() if name not in file_errors}
        answer = validation.validate(runtime.registry, self.plugin, settings, exactly_once=self.exactly_once)
        return validation.as_given(answer, resolution, {**errors, **file_errors})


@dataclass(frozen=True)
class ExamineSource(PluginCall[Json | None]):
    """Return `errors`, `summary` and `proposals` of a test of the connection; None if the connector offers none."""

    name: ClassVar[str] = "examine"
    config: Config

    def answer(self, runtime: PluginRuntime) -> Json | None:
        plugin = validation.find_nearest(runtime.registry, self.config)
        resolution, errors = runtime.attempt(self.config)
        errors |= runtime.find_closed(self.config[CONNECTOR_CLASS], resolution.config)
        if errors:
            closed = Examination({name: [text] for name, text in errors.items()})
            return _describe_examination(closed, resolution.hide)
        redact = validation.redactor(plugin, resolution.config)
        examination = plugin.cls().examine(resolution.config)
        if examination is None:
            return None
        return _describe_examination(examination, lambda text: redact(resolution.hide(text)))


def _describe_examination(examination: Examination, hide: Callable[[str], str]) -> Json:
    return {
        "errors": {name: [hide(str(text)) for text in texts] for name, texts in examination.errors.items()},
        "summary": hide(examination.summary),
        "proposals": {name: value for name, value in examination.proposals.items() if hide(value) == value},
    }


@dataclass(frozen=True)
class ReadExactlyOnceSupport(PluginCall[tuple[str, bool, str]]):
    """Return what the connector declares for this configuration (supported, unsupported or unknown), whether it can
    define transactions itself, and the effective `transaction.boundary`.

    The answer arrives as a list of three, since JSON has no tuples.
    """

    name: ClassVar[str] = "exactly_once_support"
    config: Config

    def answer(self, runtime: PluginRuntime) -> tuple[str, bool, str]:
        plugin = validation.find_for(runtime.registry, self.config)
        return validation.support_of(plugin, runtime.resolve(self.config).config)


@dataclass(frozen=True)
class ReadGuarantee(PluginCall[dict[str, str]]):
    """Return `{"guarantee", "why"}`, see `validation.describe_guarantee`."""

    name: ClassVar[str] = "guarantee"
    config: Config
    exactly_once: bool

    def answer(self, runtime: PluginRuntime) -> dict[str, str]:
        resolution = runtime.resolve(self.config)
        connector = runtime.connector(self.config)
        guarantee = validation.describe_guarantee(connector, resolution.config, exactly_once=self.exactly_once)
        return {**guarantee, "why": resolution.hide(guarantee["why"])}


@dataclass(frozen=True)
class CheckIsJava(PluginCall[bool]):
    """Return whether a name means a Java plugin. Raises `UnknownPlugin`."""

    name: ClassVar[str] = "is_java"
    plugin: str

    def answer(self, runtime: PluginRuntime) -> bool:
        return validation.is_java(validation.find(runtime.registry, self.plugin))


@dataclass(frozen=True)
class FindSlot(PluginCall[str | None]):
    """Return the slot that Debezium's first snapshot would find, see `JavaSourceConnector.find_slot`; None for any
    other connector.
    """

    name: ClassVar[str] = "find_slot"
    config: Config

    def answer(self, runtime: PluginRuntime) -> str | None:
        connector = runtime.connector(self.config)
        if not isinstance(connector, JavaSourceConnector):
            return None
        return connector.find_slot(runtime.resolve(self.config).config)


@dataclass(frozen=True)
class CheckOffsets(PluginCall[bool]):
    """Return whether the connector has checked the offsets. Raises `OffsetsRefused` if it refuses them."""

    name: ClassVar[str] = "alter_offsets"
    config: Config
    offsets: Pairs

    def answer(self, runtime: PluginRuntime) -> bool:
        connector = runtime.connector(self.config)
        try:
            settings = runtime.resolve(self.config).config
            return bool(connector.alter_offsets(settings, offsets_in(self.offsets)))
        except ConnectorError as error:
            raise OffsetsRefused(str(error)) from error


@dataclass(frozen=True)
class PreviewRecords(PluginCall[Json]):
    """Return the first records, which are not committed; see `preview.preview`.

    worker: its converter settings. secret: settings whose values are hidden, in addition to passwords. bounds: records,
    bytes, seconds. The caller makes sure that no task reads the source at the same time. Raises `BadRequest` if the
    configuration is not valid by its definition.
    """

    name: ClassVar[str] = "preview"
    leaves_nothing: ClassVar[bool] = True
    config: Config
    offsets: Pairs
    worker: Config
    secret: Sequence[str]
    bounds: Mapping[str, float]

    def answer(self, runtime: PluginRuntime) -> Json:
        plugin = validation.find_for(runtime.registry, self.config)
        _require_valid(ValidateConfig(self.config[CONNECTOR_CLASS].strip(), self.config).answer(runtime))
        config, worker, resolution = self.config, self.worker, runtime.resolve(self.config)
        scrubber = runtime.scrubber(config, resolution, self.secret)
        if validation.is_java(plugin):  # its own chain is in the Java process: references there stay unresolved
            resolution = replace(resolution, config={**resolution.config, **_settings_of_parts(config)})
            config, worker = _READY_BYTES, {}
        chain = TransformationChain(config, worker, scrubber)
        try:
            bounds = Bounds(int(self.bounds["records"]), int(self.bounds["bytes"]), self.bounds["seconds"])
            return preview(plugin, resolution, chain, offsets_in(self.offsets), bounds, scrubber)
        finally:
            chain.close()


def _require_valid(answer: Mapping[str, object]) -> None:
    """Raise `BadRequest` with the errors of a validation, if it has any."""
    configs = cast("list[dict[str, dict[str, object]]]", answer["configs"])
    errors = [str(error) for entry in configs for error in cast("list[object]", entry["value"]["errors"])]
    if errors:
        raise BadRequest("The configuration is not valid yet: " + " ".join(errors[:5]))


def _settings_of_parts(config: Config) -> dict[str, str]:
    """Return the settings of transforms, predicates and converters."""
    return {name: value for name, value in config.items() if of_a_part(name)}


@dataclass(frozen=True)
class TryChain(PluginCall[Json]):
    """Return the results of transforms and converters for a record, step by step; see `TransformationChain.walk`.

    worker, secret: as in `PreviewRecords`. Raises `BadRequest`.
    """

    name: ClassVar[str] = "try_transforms"
    config: Config
    record: Mapping[str, object]
    worker: Config
    secret: Sequence[str]

    def answer(self, runtime: PluginRuntime) -> Json:
        scrubber = runtime.scrubber(self.config, runtime.attempt(self.config)[0], self.secret)
        connector = runtime.connector(self.config)
        if isinstance(connector, JavaSourceConnector):
            parts = _settings_of_parts(self.config)
            return walk_in_java(connector, self.config, parts, sample(self.record), scrubber)
        chain = TransformationChain(self.config, self.worker, scrubber)
        try:
            return chain.walk(sample(self.record))
        finally:
            chain.close()


@dataclass(frozen=True)
class ConvertDeadLetters(PluginCall[list[Json]]):
    """Convert dead letters with the connector's current chain; see `dead_letter_replay.convert_letters`.

    worker, secret: as in `PreviewRecords`; refused: the topics that no record may be written to. Raises `BadRequest`.
    """

    name: ClassVar[str] = "replay"
    leaves_nothing: ClassVar[bool] = True
    config: Config
    letters: Sequence[Mapping[str, object]]
    worker: Config
    secret: Sequence[str]
    refused: Sequence[str]

    def answer(self, runtime: PluginRuntime) -> list[Json]:
        if validation.is_java(validation.find_for(runtime.registry, self.config)):
            raise BadRequest(
                "The transforms and converters of a Java connector run only in its Java process. Let the connector "
                "read the records again: reset its source offsets."
            )
        from ringfence.engine.plugins import dead_letter_replay  # it loads Kafka's client, which no other call needs

        resolution = runtime.resolve(self.config)
        hide = runtime.scrubber(self.config, resolution, self.secret).text
        settings = dead_letter_replay.Settings(resolution.config, self.worker)
        return dead_letter_replay.convert_letters(settings, self.letters, frozenset(self.refused), hide)


@dataclass(frozen=True)
class ReadRecordPositions(PluginCall[Json | None]):
    """Return where the connector's records contain their position in the source; None if they do not."""

    name: ClassVar[str] = "record_positions"
    config: Config

    def answer(self, runtime: PluginRuntime) -> Json | None:
        positions = runtime.connector(self.config).record_positions(runtime.resolve(self.config).config)
        return None if positions is None else asdict(positions)


@dataclass(frozen=True)
class CountRecords(PluginCall[list[int | None]]):
    """Return how many records the source has up to each committed offset, if the connector can count them."""

    name: ClassVar[str] = "count_records"
    leaves_nothing: ClassVar[bool] = True
    config: Config
    offsets: Pairs

    def answer(self, runtime: PluginRuntime) -> list[int | None]:
        connector = runtime.connector(self.config)
        settings = runtime.resolve(self.config).config
        offsets = cast("Sequence[tuple[SourcePartition, SourceOffset]]", self.offsets)
        return [connector.count_records(settings, partition, offset) for partition, offset in offsets]


@dataclass(frozen=True)
class StartInstance(PluginCall[InstanceStart]):
    """offsets: None if they were not read, see `InstanceRunner.start`. token: of this start; a `StopInstance` with an
    earlier one is ignored.
    """

    name: ClassVar[str] = "start"
    connector: str
    config: Config
    offsets: Pairs | None
    token: int
    grant: Mapping[str, object] | None = None

    def answer(self, runtime: PluginRuntime) -> InstanceStart:
        resolution = runtime.resolve(self.config)
        offsets = None if self.offsets is None else offsets_in(self.offsets)
        return runtime.instances.start(self.connector, resolution, offsets, self.token, self.grant)


@dataclass(frozen=True)
class MakeTaskConfigs(PluginCall[list[dict[str, str]]]):
    name: ClassVar[str] = "task_configs"
    connector: str
    max_tasks: int
    offsets: Pairs | None = None

    def answer(self, runtime: PluginRuntime) -> list[dict[str, str]]:
        offsets = None if self.offsets is None else offsets_in(self.offsets)
        return runtime.instances.task_configs(self.connector, self.max_tasks, offsets)


@dataclass(frozen=True)
class StopInstance(PluginCall[None]):
    name: ClassVar[str] = "stop"
    connector: str
    token: int

    def answer(self, runtime: PluginRuntime) -> None:
        runtime.instances.stop(self.connector, self.token)


def pairs_of(offsets: Offsets) -> Pairs:
    """Return the offsets in the form for a call."""
    return [[dict(partition), None if offset is None else dict(offset)] for partition, offset in offsets]


def offsets_in(pairs: Pairs) -> Offsets:
    """Return the offsets of a call."""
    return cast("Offsets", [(partition, offset) for partition, offset in pairs])


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
