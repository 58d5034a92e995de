"""`topic.creation.*`: how missing topics are created before the first record is written (KIP-158)."""

from collections.abc import Mapping
from typing import Final

from ringfence.connectors.api import NO_DEFAULT, ConfigDef, ConfigException, ConfigType, Importance, UniqueItems, Width
from ringfence.connectors.sdk.linear_patterns import LinearPattern

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
