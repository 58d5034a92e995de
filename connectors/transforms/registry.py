"""The available transforms and predicates, by the names that a configuration may use, and the settings of the
configured ones, under their full names.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from ringfence.connectors.api import Choices, ConfigDef, ConfigException, ConfigType, Importance, Validator, Width
from ringfence.connectors.class_names import class_name, resolve_class_name
from ringfence.connectors.transforms.base import Transform
from ringfence.connectors.transforms.fields import (
    ExtractFieldKey,
    ExtractFieldValue,
    FlattenKey,
    FlattenValue,
    HoistFieldKey,
    HoistFieldValue,
    ReplaceFieldKey,
    ReplaceFieldValue,
    ValueToKey,
)
from ringfence.connectors.transforms.new_record_state import ExtractNewRecordState
from ringfence.connectors.transforms.predicates import HasHeaderKey, Predicate, RecordIsTombstone, TopicNameMatches
from ringfence.connectors.transforms.routing import (
    DropHeaders,
    Filter,
    HeaderFromKey,
    HeaderFromValue,
    InsertHeader,
    RegexRouter,
)
from ringfence.connectors.transforms.timestamps import TimestampConverterKey, TimestampConverterValue, TimestampRouter
from ringfence.connectors.transforms.values import (
    CastKey,
    CastValue,
    InsertFieldKey,
    InsertFieldValue,
    MaskFieldKey,
    MaskFieldValue,
    SetSchemaMetadataKey,
    SetSchemaMetadataValue,
)

VERSION: Final = "4.3.0"
"""The version of Kafka Connect whose transforms and predicates have counterparts here: shown as `plugin.version`."""

TRANSFORMS: Final[tuple[type[Transform], ...]] = (
    CastKey,
    CastValue,
    DropHeaders,
    ExtractFieldKey,
    ExtractFieldValue,
    ExtractNewRecordState,
    Filter,
    FlattenKey,
    FlattenValue,
    HeaderFromKey,
    HeaderFromValue,
    HoistFieldKey,
    HoistFieldValue,
    InsertFieldKey,
    InsertFieldValue,
    InsertHeader,
    MaskFieldKey,
    MaskFieldValue,
    RegexRouter,
    ReplaceFieldKey,
    ReplaceFieldValue,
    SetSchemaMetadataKey,
    SetSchemaMetadataValue,
    TimestampConverterKey,
    TimestampConverterValue,
    TimestampRouter,
    ValueToKey,
)
PREDICATES: Final[tuple[type[Predicate], ...]] = (HasHeaderKey, RecordIsTombstone, TopicNameMatches)

_Class = TypeVar("_Class", type[Transform], type[Predicate])


def find_transform(setting: str, name: str) -> type[Transform]:
    """Return the transform with this name or alias. Raises `ConfigException`, which names `setting`."""
    return _find(TRANSFORMS, setting, name)


def find_predicate(setting: str, name: str) -> type[Predicate]:
    """Return the predicate with this name or alias. Raises `ConfigException`, which names `setting`."""
    return _find(PREDICATES, setting, name)


def _find(classes: Iterable[_Class], setting: str, name: str) -> _Class:
    for cls in classes:
        if name == cls.name or name in cls.aliases or resolve_class_name(name) == class_name(cls):
            return cls
    names = ", ".join(cls.name for cls in classes)
    raise ConfigException.invalid(setting, name, f"Class {name} could not be found. Available: {names}")


def aliases(config: Mapping[str, str], setting: str) -> list[str]:
    """Return what `transforms` or `predicates` lists, in its order."""
    return [alias.strip() for alias in config.get(setting, "").split(",") if alias.strip()]


def framework_keys() -> ConfigDef:
    """Return the settings that every transform has in addition to its own, without the prefix."""
    return (
        ConfigDef()
        .define(
            "plugin.version",
            ConfigType.STRING,
            default=VERSION,
            validator=check_version,
            recommender=Choices(VERSION),
            importance=Importance.HIGH,
            documentation="The required version.",
            width=Width.LONG,
            display_name="Version",
        )
        .define(
            "predicate",
            ConfigType.STRING,
            default=None,
            documentation="The alias of the predicate that selects the records to transform. Default: all records.",
        )
        .define(
            "negate",
            ConfigType.BOOLEAN,
            default=False,
            documentation="Whether to transform the records that the predicate does not accept.",
        )
    )


def transform_keys(config: Mapping[str, str]) -> ConfigDef:
    """Return the settings of all transforms and predicates in a configuration, for validation and forms."""
    keys = ConfigDef()
    for alias in dict.fromkeys(aliases(config, "transforms")):
        prefix = f"transforms.{alias}."
        _define(keys, config, prefix, f"Transforms: {alias}", "transform", TRANSFORMS)
    for alias in dict.fromkeys(aliases(config, "predicates")):
        prefix = f"predicates.{alias}."
        _define(keys, config, prefix, f"Predicates: {alias}", "predicate", PREDICATES)
    return keys


def _define(
    keys: ConfigDef,
    config: Mapping[str, str],
    prefix: str,
    group: str,
    kind: str,
    classes: Sequence[type[Transform] | type[Predicate]],
) -> None:
    setting, transforms = prefix + "type", kind == "transform"
    find: Callable[[str, str], object] = find_transform if transforms else find_predicate

    def check(name: str, value: object) -> None:
        find(name, str(value))
        if transforms:
            check_negate(config, prefix)

    alias, title = prefix.split(".", 1)[1][:-1], "Transformation" if transforms else "Predicate"
    keys.define(
        setting,
        ConfigType.CLASS,
        validator=check,
        recommender=Choices(*((*cls.aliases, cls.name)[0] for cls in classes)),  # the names that clients know
        importance=Importance.HIGH,
        documentation=f"The class of the {kind} {alias}.",
        group=group,
        order_in_group=0,
        width=Width.LONG,
        display_name=f"{title} type for {alias}",
    )
    implied = list(framework_keys().keys.values())
    try:
        name = config.get(setting, "").strip()
        own = (find_transform(setting, name) if transforms else find_predicate(setting, name)).config_def()
    except ConfigException:
        return  # the validator of `type` reports it
    mine = [*(implied if transforms else implied[:1]), *own.keys.values()]
    for order, key in enumerate(mine, start=1):
        full = prefix + key.name
        validator: Validator | None = key.validator
        if transforms and key.name == "predicate":

            def validator(name: str, value: object) -> None:
                check_predicate(config, name, str(value))

        keys.add(
            replace(
                key,
                name=full,
                display_name=f"{title} version for {alias}" if key.name == "plugin.version" else key.display_name,
                group=group,
                order_in_group=order,
                validator=validator,
            )
        )


def check_version(name: str, value: object) -> None:
    """Accept only the one version that exists."""
    if value != VERSION:
        raise ConfigException.invalid(name, value, f"Version {value} is not installed; installed is {VERSION}")


def check_predicate(config: Mapping[str, str], name: str, alias: str) -> None:
    """Require that the predicate is listed in `predicates`: otherwise the task fails when it starts."""
    names = aliases(config, "predicates")
    if alias not in names:
        text = ", ".join(names) or "nothing"
        raise ConfigException.invalid(name, alias, f"predicates lists {text}; add {alias} and its type")


def check_negate(config: Mapping[str, str], prefix: str) -> None:
    """Refuse `negate` without a predicate, as Kafka Connect does."""
    if prefix + "negate" in config and prefix + "predicate" not in config:
        raise ConfigException(
            f"Config '{prefix}negate' was provided but there is no config '{prefix}predicate' defining a predicate to "
            "be negated."
        )
