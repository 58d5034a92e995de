"""A Java source connector behind our interface: each call goes to a Java process that all connectors here share."""

import threading
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar

from ringfence.connectors.api import (
    NO_DEFAULT,
    ConfigDef,
    ConfigException,
    ConfigKey,
    ConfigType,
    ConfigValue,
    ConnectorError,
    ConnectorTransactionBoundaries,
    ExactlyOnceSupport,
    Importance,
    SourceConnector,
    SourceOffset,
    SourcePartition,
    SourceTask,
    Width,
)
from ringfence.connectors.api.config_def import parse_value
from ringfence.connectors.java import processes
from ringfence.connectors.java.channel import JavaEnded, JavaFailure
from ringfence.connectors.java.discovery import JavaPlugin
from ringfence.connectors.java.files import require_allowed_files
from ringfence.connectors.java.processes import ConnectorProcess
from ringfence.connectors.java.task import changes_nothing, java_task_class, preview_settings
from ringfence.connectors.sdk.guarded_connects import note_names


class JavaSourceConnector(SourceConnector):
    """The connector of one Java class. `java_connector_class` creates the subclass."""

    java_class: ClassVar[str]
    plugin: ClassVar[JavaPlugin]

    def __init__(self) -> None:
        self._process: ConnectorProcess | None = None
        self._config: dict[str, str] = {}
        self._starting = threading.Lock()

    @classmethod
    def config_def(cls) -> ConfigDef:
        return keys_of(cls._describe()["keys"])

    @classmethod
    def task_class(cls) -> type[SourceTask]:
        return java_task_class(str(cls._describe()["task_class"]))

    @classmethod
    def _describe(cls) -> Mapping[str, Any]:
        process = processes.get(cls.plugin)
        description = process.answers.get(cls.java_class)
        if description is None:
            description = process.answers[cls.java_class] = process.call("describe", type=cls.java_class)
        return description

    def validate_by_java(self, config: Mapping[str, str]) -> list[tuple[ConfigKey, ConfigValue]]:
        """Validate the connector's own settings, and those of its Java transforms and converters, in Java.

        Raises `JavaFailure` if the connector's `validate` throws.
        """
        process = processes.get(self.plugin)
        body = process.call("validate", config=self._with_full_name(config), worker=dict(process.runtime.worker))
        checks: list[tuple[ConfigKey, ConfigValue]] = []
        for part in ("parts", "own"):
            keys, values = values_of(body[part], config)
            checks += [(keys[value.name], value) for value in values]
        return checks

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport | None:
        word = self._support(config)[0]
        return ExactlyOnceSupport(word) if word in ExactlyOnceSupport.__members__ else None

    def can_define_transaction_boundaries(self, config: Mapping[str, str]) -> ConnectorTransactionBoundaries:
        word = self._support(config)[1]
        supported = word == ConnectorTransactionBoundaries.SUPPORTED
        return ConnectorTransactionBoundaries.SUPPORTED if supported else ConnectorTransactionBoundaries.UNSUPPORTED

    def _support(self, config: Mapping[str, str]) -> Sequence[str]:
        answer: Sequence[str] = processes.get(self.plugin).call("support", config=self._with_full_name(config))
        return answer

    def find_slot(self, config: Mapping[str, str]) -> str | None:
        """Return the existing replication slot that Debezium's first snapshot would find, or "" if there is none.

        None for a connector that takes no such snapshot. Raises `JavaFailure` if the database does not answer.
        """
        answer = processes.get(self.plugin).call("slot", config=self._with_full_name(config))
        return str(answer["found"]) if answer["concerned"] else None

    def try_record(self, parts: Mapping[str, str], record: Mapping[str, object]) -> Mapping[str, Any]:
        """Return the results of each transform and the converters for a sample record.

        parts: the settings of transforms, predicates and converters; host/Trial.java has the keys of record and
        result. Raises `ConnectorError` for a file outside of the file roots, and for settings that Java refuses.
        """
        process = processes.get(self.plugin)
        config = self._with_full_name({**parts, "name": "trial"})
        try:
            answer: Mapping[str, Any] = process.call(
                "try", config=config, worker=dict(process.runtime.worker), record=dict(record)
            )
        except JavaFailure as error:
            raise ConnectorError(error.summary) from error
        return answer

    def alter_offsets(
        self, config: Mapping[str, str], offsets: Sequence[tuple[SourcePartition, SourceOffset | None]]
    ) -> bool:
        pairs = [[dict(partition), None if offset is None else dict(offset)] for partition, offset in offsets]
        try:
            return bool(
                processes.get(self.plugin).call("alter_offsets", config=self._with_full_name(config), offsets=pairs)
            )
        except JavaFailure as error:
            if error.kind.endswith("UnsupportedOperationException"):  # the connector does not implement it
                return False
            raise ConnectorError(error.summary) from error

    def start(self, config: Mapping[str, str]) -> None:
        self._config = {**config, **(preview_settings(self.java_class) if self.context.trial else {})}
        with self._starting:
            self._start_in(processes.get(self.plugin))

    def _start_in(self, process: ConnectorProcess) -> None:
        name = self._config["name"]
        process.instances[name] = self
        try:
            process.call("start", name=name, config=self._with_full_name(self._config))
        except BaseException:
            process.instances.pop(name, None)
            raise
        self._process = process

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        with self._starting:
            process = self._process
            if process is None or process.ended is not None:  # another connector may have ended it
                process = processes.get(self.plugin)
                self._start_in(process)
        answer: list[dict[str, str | None]] = process.call("task_configs", name=self._config["name"], max=max_tasks)
        more = preview_settings(self.java_class) if self.context.trial else {}
        return [{**{name: text for name, text in one.items() if text is not None}, **more} for one in answer]

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.instances.pop(self._config["name"], None)
        try:
            process.call("stop_connector", name=self._config["name"])
        except JavaEnded:
            pass
        finally:
            processes.release(process)

    def on_event(self, event: Mapping[str, Any]) -> None:
        """Handle an event of this instance, or the process's end. Called on the process's thread."""
        if event["event"] == "connector_failed":
            self.context.raise_error(JavaFailure(str(event["trace"])))
            return
        self.context.request_task_reconfiguration()

    def _with_full_name(self, config: Mapping[str, str]) -> dict[str, str]:
        """Return the configuration with the full class name. Raises `ConnectorError` for a file outside of the file
        roots.
        """
        require_allowed_files(config)
        note_names(config.values())
        return {**config, "connector.class": self.java_class}


@lru_cache(maxsize=1000)
def java_connector_class(plugin: JavaPlugin) -> type[JavaSourceConnector]:
    """Return the connector class of a plugin: the same one for the same plugin."""
    simple = plugin.class_name.rpartition(".")[2]
    attributes = {
        "__doc__": f"Kafka Connect's plugin {plugin.class_name}, version {plugin.version}, from plugin.path.",
        "java_class": plugin.class_name,
        "plugin": plugin,
        "version": plugin.version,
        "preview_while_running": changes_nothing(plugin.class_name),
    }
    return type(simple, (JavaSourceConnector,), attributes)


def keys_of(infos: Iterable[Mapping[str, Any]]) -> ConfigDef:
    """Return a definition without validators and recommenders: those run in Java, and `values_of` has their results."""
    return ConfigDef(_key(info) for info in infos)


def _key(info: Mapping[str, Any]) -> ConfigKey:
    kind = ConfigType(info["type"])
    return ConfigKey(
        name=info["name"],
        type=kind,
        default=NO_DEFAULT if info["required"] else _parse(info["name"], kind, info["default_value"]),
        importance=Importance(info["importance"]),
        documentation=info["documentation"] or "",
        group=info["group"],
        order_in_group=-1 if info["order_in_group"] is None else info["order_in_group"],
        width=Width(info["width"]),
        display_name=info["display_name"] or info["name"],
        dependents=tuple(info["dependents"] or ()),
    )


def _parse(name: str, kind: ConfigType, text: str | None) -> object:
    if text is None:
        return None
    try:
        return parse_value(name, kind, text)
    except ConfigException:  # Java allows a default that does not match its type
        return None


def values_of(
    body: Mapping[str, Any], config: Mapping[str, str | None]
) -> tuple[dict[str, ConfigKey], list[ConfigValue]]:
    """Return keys and values of a validate response. Values in `config` are returned as written there."""
    keys: dict[str, ConfigKey] = {}
    values = []
    for entry in body["configs"]:
        definition, value = entry["definition"], entry["value"]
        name = value["name"]
        keys[name] = _key(definition)
        value_now = config.get(name)
        if value_now is None:
            value_now = value["value"]
        values.append(
            ConfigValue(
                name,
                _read_value(name, keys[name].type, value_now),
                recommended_values=list(value["recommended_values"] or ()),
                errors=list(dict.fromkeys(value["errors"] or ())),
                visible=value["visible"],
            )
        )
    return keys, values


def _read_value(name: str, kind: ConfigType, text: str | None) -> object:
    if text is None:
        return None
    try:
        return parse_value(name, kind, text)
    except ConfigException:
        return None
