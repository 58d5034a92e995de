"""Converts the JSON of Java's `ConfigDef` and `validate` to our definitions and values."""

from collections.abc import Iterable, Mapping
from typing import Any

from ringfence.connectors.api import (
    NO_DEFAULT,
    ConfigDef,
    ConfigException,
    ConfigKey,
    ConfigType,
    ConfigValue,
    Importance,
    Width,
)
from ringfence.connectors.api.value_parsing import parse_value


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
