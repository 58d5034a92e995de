"""The settings of every source connector, with Kafka Connect's names, groups and order; and those of a Java connector
that Kafka Connect lacks: processes, snapshots.

A setting that is not supported yet is refused with the reason, never ignored: see `not_yet`.

`source_config_def` is the complete definition of a connector's configuration, with its own settings
(`SourceConnector.config_def`), converters and transforms.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final

from ringfence.connectors.api import (
    NO_DEFAULT,
    Choices,
    ConfigDef,
    ConfigException,
    ConfigType,
    Importance,
    NoControlCharacters,
    NonEmpty,
    OneOf,
    Range,
    UniqueItems,
    Validator,
    Width,
)
from ringfence.connectors.converters import (
    CONVERTERS,
    HEADER,
    HEADER_CONVERTERS,
    KEY,
    VALUE,
    find_converter,
    find_header_converter,
)
from ringfence.connectors.sdk.delivery import DEAD_LETTERS, TRANSACTION_BOUNDARY
from ringfence.connectors.sdk.linear_patterns import LinearPattern
from ringfence.connectors.sdk.names import describe_length, shorten
from ringfence.connectors.sdk.worker_limits import TASKS_MAX_LIMIT, current
from ringfence.connectors.transforms import transform_keys

JAVA_PROCESS: Final = "java.process"
OWN: Final = "own"
SHARED: Final = "shared"
SNAPSHOT_TRANSACTION: Final = "snapshot.transaction"
SNAPSHOT_TRANSACTION_TIMEOUT_MS: Final = "snapshot.transaction.timeout.ms"
SNAPSHOT_TRANSACTION_DROP_SLOT: Final = "snapshot.transaction.drop.slot"
DEFAULT_TIMEOUT_MS: Final = 900_000
"""The brokers' own default of transaction.max.timeout.ms."""


def java_keys() -> ConfigDef:
    """Return their definitions."""
    return ConfigDef().define(
        JAVA_PROCESS,
        ConfigType.STRING,
        default=OWN,
        validator=OneOf(OWN, SHARED),
        recommender=Choices(OWN, SHARED),
        importance=Importance.LOW,
        documentation="Whether each task has a Java process of its own, or shares one with other tasks on its machine "
        "that set this, too. That takes less memory, and finds the connector's code compiled. But what ends the "
        "process, such as a full heap, ends all of these tasks, and they are restarted.",
        group="Common",
        width=Width.SHORT,
        display_name="Java process",
    )


def snapshot_keys() -> ConfigDef:
    """Return their definitions."""
    keys = ConfigDef()
    group = keys.group("Exactly Once Support")
    group.flag(
        SNAPSHOT_TRANSACTION,
        "Commit an initial snapshot, which is detected by source offsets in Debezium's form, as one transaction. A "
        "snapshot that is interrupted then leaves no rows in the topics, and no row is repeated. read_committed "
        "consumers see nothing of it until it ends.",
        False,
        width=Width.SHORT,
        display_name="Snapshot as one transaction",
    )
    group.long(
        SNAPSHOT_TRANSACTION_TIMEOUT_MS,
        "With snapshot.transaction, the maximum duration of the snapshot, in milliseconds. The brokers' "
        "transaction.max.timeout.ms and the worker's connector.transaction.timeout.max.ms must allow it.",
        DEFAULT_TIMEOUT_MS,
        1000,
        2**31 - 1,
        importance=Importance.LOW,
        display_name="Longest snapshot",
    )
    group.flag(
        SNAPSHOT_TRANSACTION_DROP_SLOT,
        "With snapshot.transaction and Debezium for PostgreSQL: drop the replication slot that an interrupted snapshot "
        "has left, before the next one. Without it, the task reports the slot and does not start: with an old slot, "
        "changes from around the beginning of a snapshot are repeated.",
        False,
        width=Width.SHORT,
        display_name="Drop the slot of an interrupted snapshot",
    )
    return keys


def snapshot_timeout_ms(config: Mapping[str, str]) -> int:
    """Return how long the snapshot's transaction may be open; 0 without one. Raises ValueError if it is
    not a number.
    """
    if config.get(SNAPSHOT_TRANSACTION, "").strip().lower() != "true":
        return 0
    return int(config.get(SNAPSHOT_TRANSACTION_TIMEOUT_MS, "").strip() or DEFAULT_TIMEOUT_MS)


PREFIX: Final = "topic.creation."
GROUPS: Final = "topic.creation.groups"
DEFAULT: Final = "default"
REPLICATION_FACTOR: Final = "replication.factor"
ENABLE: Final = "topic.creation.enable"
"""A setting of the worker."""

_GROUP: Final = "Topic Creation"
_MEDIUM, _LOW = Importance.MEDIUM, Importance.LOW


def group_names(config: Mapping[str, str]) -> list[str]:
    """Return what `topic.creation.groups` lists, in its order."""
    return [name.strip() for name in config.get(GROUPS, "").split(",") if name.strip()]


def groups_setting(keys: ConfigDef) -> None:
    """Define only `topic.creation.groups`: the groups' own settings depend on it."""
    keys.define(
        GROUPS,
        ConfigType.LIST,
        default=[],
        validator=UniqueItems(),
        importance=_LOW,
        documentation="Groups of topics with common settings for their creation; the first that matches is used. A "
        "group g has topic.creation.g.include (regular expressions), and its own partitions, "
        "replication.factor and settings.",
        group=_GROUP,
        width=Width.LONG,
        display_name="Topic creation groups",
    )


def _count(name: str, value: object) -> None:
    if not isinstance(value, int) or (value != -1 and value < 1):
        raise ConfigException.invalid(name, value, "Value must be at least 1, or -1 to use the broker's default")


def _expressions(name: str, value: object) -> None:
    for part in value if isinstance(value, list) else []:
        try:
            LinearPattern(str(part))
        except ValueError as error:
            raise ConfigException.invalid(name, part, f"it is not a regular expression: {error}") from error


def topic_creation_keys(config: Mapping[str, str]) -> ConfigDef:
    """Return the settings of each group. If there are any, the default's partitions and replication factor are
    required, as in Kafka Connect.
    """
    keys = ConfigDef()
    if not any(name.startswith(PREFIX) for name in config):
        return keys
    groups = [DEFAULT, *(name for name in dict.fromkeys(group_names(config)) if name != DEFAULT)]
    for group in groups:
        prefix = f"{PREFIX}{group}."
        default = NO_DEFAULT if group == DEFAULT else None
        if group != DEFAULT:
            keys.define(
                prefix + "include",
                ConfigType.LIST,
                validator=_expressions,
                importance=_MEDIUM,
                documentation="The topics of this group: names and regular expressions that match whole names.",
                group=f"{_GROUP}: {group}",
                width=Width.LONG,
                display_name=f"Topics of {group}",
            ).define(
                prefix + "exclude",
                ConfigType.LIST,
                default=[],
                validator=_expressions,
                importance=_LOW,
                documentation="Topics to exclude from the matching ones.",
                group=f"{_GROUP}: {group}",
                width=Width.LONG,
                display_name=f"Not of {group}",
            )
        keys.define(
            prefix + "partitions",
            ConfigType.INT,
            default=default,
            validator=_count,
            importance=_MEDIUM,
            documentation="The number of partitions; -1 means the broker's default."
            + ("" if group == DEFAULT else " Default: the default group's."),
            group=f"{_GROUP}: {group}",
            width=Width.SHORT,
            display_name=f"Partitions of {group}",
        ).define(
            prefix + REPLICATION_FACTOR,
            ConfigType.SHORT,
            default=default,
            validator=_count,
            importance=_MEDIUM,
            documentation="The replication factor; -1 means the broker's default."
            + ("" if group == DEFAULT else " Default: the default group's."),
            group=f"{_GROUP}: {group}",
            width=Width.SHORT,
            display_name=f"Replication factor of {group}",
        )
    _others(keys, config, groups)
    return keys


def _others(keys: ConfigDef, config: Mapping[str, str], groups: list[str]) -> None:
    """Accept any topic setting, which Kafka validates; refuse settings of a group that is not listed."""

    def reject_unlisted(name: str, value: object) -> None:
        raise ConfigException.invalid(name, value, f"its group is not listed in {GROUPS}; add it there, or remove this")

    for name in config:
        if not name.startswith(PREFIX) or name in (GROUPS, *keys.keys):
            continue
        is_known = any(name.startswith(f"{PREFIX}{group}.") for group in groups)
        keys.define(
            name,
            ConfigType.STRING,
            default=None,
            validator=None if is_known else reject_unlisted,
            importance=_LOW,
            documentation="A topic setting for the created topics.",
            group=_GROUP,
            display_name=name,
        )


AUTO_RESTART_ENABLED: Final = "auto.restart.enabled"
AUTO_RESTART_MAX_ATTEMPTS: Final = "auto.restart.max.attempts"


def error_settings(keys: ConfigDef) -> None:
    """Define what happens to records that cannot be transformed or converted, and to failed tasks."""
    errors = keys.group("Error Handling")
    errors.long(
        "errors.retry.timeout",
        "How long, in milliseconds, a transform or converter is called again after a RetriableError. 0: never; -1: "
        "without a limit.",
        0,
        -1,
        width=Width.MEDIUM,
        display_name="Retry timeout for errors",
    )
    errors.long(
        "errors.retry.delay.max.ms",
        "The maximum pause between two attempts, in milliseconds. Without retries it has no effect.",
        60000,
        1,
        width=Width.MEDIUM,
        display_name="Longest pause between retries",
    )
    errors.choice(
        "errors.tolerance",
        "none: a record that cannot be read, transformed or converted fails the task. all: the record is skipped and "
        "its source offset is committed. A dead letter topic keeps it, if one is set.",
        ("none", "all"),
        "none",
        display_name="Error tolerance",
    )
    errors.flag(
        "errors.log.enable",
        "Log the error of each record that fails, even if it is tolerated. An error that fails the task is always "
        "logged.",
        False,
        width=Width.SHORT,
        display_name="Log errors",
    )
    errors.flag(
        "errors.log.include.messages",
        "Also log the record's key and value. They may contain personal data or secrets.",
        False,
        width=Width.SHORT,
        display_name="Log error details",
    )
    errors.text(
        DEAD_LETTERS,
        "With errors.tolerance=all, the topic for skipped records. They are written in the same transaction as their "
        "source offsets, with stage, class, error, source partition and source offset as headers. The topic is created "
        "if it is missing.",
        None,
        validator=NonEmpty(),
        width=Width.MEDIUM,
        display_name="Dead letter topic",
    )
    errors.flag(
        AUTO_RESTART_ENABLED,
        "Whether a failed task restarts automatically: after 10 s, then after pauses that double up to 10 min. A task "
        "that reports a wrong configuration is not restarted.",
        True,
        importance=Importance.LOW,
        width=Width.SHORT,
        display_name="Restart failed tasks",
    )
    errors.integer(
        AUTO_RESTART_MAX_ATTEMPTS,
        "The maximum number of automatic restarts of a task in a row. The count starts again after 10 min without a "
        "failure, and after a manual restart.",
        7,
        0,
        importance=Importance.LOW,
        display_name="Most restarts in a row",
    )


EXACTLY_ONCE_SUPPORT: Final = "exactly.once.support"
TRANSACTION_BOUNDARY_INTERVAL_MS: Final = "transaction.boundary.interval.ms"
OFFSETS_STORAGE_TOPIC: Final = "offsets.storage.topic"


def not_yet(what: str, *accepted: object) -> Validator:
    """Return a validator that accepts only these values, and refuses others because `what` is not supported yet."""

    def check(name: str, value: object) -> None:
        if (value.lower() if isinstance(value, str) else value) not in accepted:
            text = ",".join(value) if isinstance(value, list) else value
            if isinstance(text, bool):
                text = str(text).lower()
            raise ConfigException.invalid(name, text, f"{what} not supported yet; remove this setting")

    return check


def delivery_settings(keys: ConfigDef) -> None:
    """Define the settings of topics, transactions and offsets."""
    groups_setting(keys)
    exactly_once = keys.group("Exactly Once Support")
    exactly_once.choice(
        EXACTLY_ONCE_SUPPORT,
        "required: refuse a connector that does not declare exactly-once support. requested: run it anyway.",
        ("requested", "required"),
        "requested",
        validator=OneOf("requested", "required", ignore_case=True),
        display_name="Exactly once support",
    )
    exactly_once.choice(
        TRANSACTION_BOUNDARY,
        "When to commit: after each batch that the task returns (poll), after a time (interval), or when the connector "
        "decides (connector), if it supports that. The default is poll, or connector if the connector needs that.",
        ("poll", "interval", "connector"),
        "poll",
        validator=OneOf("poll", "interval", "connector", ignore_case=True),
        display_name="Transaction boundary",
    )
    exactly_once.long(
        TRANSACTION_BOUNDARY_INTERVAL_MS,
        "With transaction.boundary=interval, the milliseconds between commits. Otherwise it has no effect. The default "
        "is the worker's offset.flush.interval.ms.",
        None,
        0,
        importance=Importance.LOW,
        display_name="Transaction boundary interval",
    )
    keys.group("offsets.topic").text(
        OFFSETS_STORAGE_TOPIC,
        "A separate topic for the source offsets of this connector. The default is the worker's offsets topic.",
        None,
        validator=NonEmpty(),
        importance=Importance.LOW,
        width=Width.LONG,
        display_name="Offsets topic",
    )


NAME: Final = "name"
CONNECTOR_CLASS: Final = "connector.class"
PLUGIN_VERSION: Final = "connector.plugin.version"
TASKS_MAX: Final = "tasks.max"
TASKS_MAX_ENFORCE: Final = "tasks.max.enforce"

_COMMON: Final = "Common"


def is_connector_name(name: str, value: object) -> None:
    """Validate a connector's name. Raises `ConfigException`, in Connect's words, if it is empty, long, has control
    characters, or cannot be a segment of a path: clients resolve `.` and `..` before they send anything.
    """
    if not str(value):
        raise ConfigException.invalid(name, value, "String may not be empty")
    if str(value) in (".", ".."):
        raise ConfigException.invalid(name, value, "String may be neither . nor .., which no address can contain")
    if reason := describe_length(str(value)):
        raise ConfigException.invalid(name, shorten(str(value)), reason)
    NoControlCharacters()(name, value)


def is_task_count(name: str, value: object) -> None:
    """Validate `tasks.max`. Raises `ConfigException` if it is below 1, or above the limit of this process's worker."""
    Range(1)(name, value)
    most = current().tasks
    if isinstance(value, int) and value > most:
        raise ConfigException.invalid(
            name,
            value,
            f"Value must be no more than {most}. Lower it, or have an administrator raise {TASKS_MAX_LIMIT} in the "
            "workers' settings",
        )


def _is_converter(name: str, value: object) -> None:
    find_converter(name, str(value))


def _is_header_converter(name: str, value: object) -> None:
    find_header_converter(name, str(value))


def common_settings() -> ConfigDef:
    """Return the settings that do not depend on the configured transforms and converters."""
    keys = ConfigDef()
    _identity(keys)
    _conversion(keys)
    error_settings(keys)
    delivery_settings(keys)
    return keys


def _identity(keys: ConfigDef) -> None:
    """Define what runs, and the number of tasks."""
    common = keys.group(_COMMON)
    common.text(
        NAME,
        "The connector's name, unique in this cluster.",
        validator=is_connector_name,
        width=Width.MEDIUM,
        display_name="Connector name",
    )
    common.text(
        CONNECTOR_CLASS,
        "The connector to run: its name, its Python class, or the Java class of its counterpart.",
        width=Width.LONG,
        display_name="Connector class",
    )
    common.text(
        PLUGIN_VERSION,
        "The version of the connector: one (1.2.3), the newest of a range ([1.2,2.0)), or latest. Default: the newest "
        "that is installed.",
        None,
        width=Width.MEDIUM,
        display_name="Connector version",
    )
    common.integer(
        TASKS_MAX,
        "The maximum number of tasks that read the source in parallel.",
        1,
        validator=is_task_count,
        importance=Importance.HIGH,
        display_name="Tasks max",
    )
    common.flag(
        TASKS_MAX_ENFORCE,
        "Whether a connector fails if it creates more than tasks.max tasks. Deprecated: leave it on.",
        True,
        importance=Importance.LOW,
        width=Width.SHORT,
        display_name="Enforce tasks max",
    )


def _conversion(keys: ConfigDef) -> None:
    """Define how the source's records become Kafka's."""
    _converter(keys, KEY, "key", _is_converter, CONVERTERS)
    _converter(keys, VALUE, "value", _is_converter, CONVERTERS)
    _converter(keys, HEADER, "header value", _is_header_converter, HEADER_CONVERTERS)
    keys.group(_COMMON).choice(
        "config.action.reload",
        "What to do when a value from a configuration provider changes.",
        ("restart", "none"),
        "restart",
        validator=OneOf("none", "restart"),
        importance=Importance.LOW,
        width=Width.MEDIUM,
        display_name="Reload action",
    )
    keys.group("Transforms").items(
        "transforms",
        "Aliases of the transforms to apply to each record, in this order.",
        validator=UniqueItems(),
        importance=Importance.LOW,
        display_name="Transforms",
    )
    keys.group("Predicates").items(
        "predicates",
        "Aliases of the predicates that transforms use.",
        validator=UniqueItems(),
        importance=Importance.LOW,
        display_name="Predicates",
    )


def _converter(
    keys: ConfigDef, name: str, what: str, validator: Callable[[str, object], None], classes: Iterable[type]
) -> None:
    """Define the settings of one converter: its class and its version. what: what it converts to bytes."""
    title = what.partition(" ")[0].capitalize()
    keys.define(
        name,
        ConfigType.CLASS,
        default=None,
        validator=validator,
        recommender=Choices(*(cls.__name__ for cls in classes)),
        importance=Importance.LOW,
        documentation=f"Converts {what}s to bytes. Default: the worker's converter.",
        group=_COMMON,
        width=Width.SHORT,
        display_name=f"{title} converter class",
    )
    keys.group(_COMMON).text(
        f"{name}.plugin.version",
        "Not supported: converters have the version of this program.",
        None,
        validator=not_yet("choosing a converter by its version is"),
        importance=Importance.LOW,
        width=Width.SHORT,
        display_name=f"{title} converter version",
    )


def source_config_def(config: Mapping[str, str], *, java: bool = False) -> ConfigDef:
    """Return the settings that the framework knows in this configuration, including those that it must refuse.

    Other names are left to the connector. java: without transforms and converters, which are Java's own for a Java
    connector, and with the settings of processes and snapshots.
    """
    if java:
        keys = (key for key in common_settings().keys.values() if not of_a_part(key.name))
        more = (java_keys(), snapshot_keys(), topic_creation_keys(config))
        return ConfigDef([*keys, *(key for each in more for key in each.keys.values())])
    definition = common_settings()
    for setting in (KEY, VALUE, HEADER):
        name = config.get(setting)
        if isinstance(name, str):
            for key in _converter_keys(setting, name.strip()).keys.values():
                full = f"{setting}.{key.name}"
                definition.add(replace(key, name=full, display_name=full, group=f"Converter: {setting}"))
    for key in transform_keys(config).keys.values():
        definition.add(key)
    for key in topic_creation_keys(config).keys.values():
        definition.add(key)
    return definition


def of_a_part(setting: str) -> bool:
    """Return whether the setting belongs to transforms, predicates or converters."""
    return setting.partition(".")[0] in ("transforms", "predicates") or ".converter" in setting


def _converter_keys(setting: str, name: str) -> ConfigDef:
    try:
        cls = find_header_converter(setting, name) if setting == HEADER else find_converter(setting, name)
    except ConfigException:
        return ConfigDef()  # the setting's own validator reports it
    return cls.config_def()
