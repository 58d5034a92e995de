"""The settings of every source connector, with Kafka Connect's names, groups and order.

A setting that is not supported yet is refused with the reason, never ignored: see `delivery_settings.not_yet`.
"""

from collections.abc import Callable, Iterable
from typing import Final

from ringfence.connectors.api import (
    Choices,
    ConfigDef,
    ConfigException,
    ConfigType,
    Importance,
    NoControlCharacters,
    OneOf,
    Range,
    UniqueItems,
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
from ringfence.connectors.delivery_settings import delivery_settings, not_yet
from ringfence.connectors.error_settings import error_settings
from ringfence.connectors.sdk.names import describe_length, shorten
from ringfence.connectors.sdk.worker_limits import TASKS_MAX_LIMIT, current

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
