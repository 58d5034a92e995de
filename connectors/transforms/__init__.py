"""Transforms: small changes to each record on its way, by configuration alone.

`transforms=a,b` names aliases in their order; `transforms.a.type` says which transform `a` is, and further
`transforms.a.*` are its settings.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from connectors.api import ConfigDef, ConfigException, ConfigType, Importance
from connectors.transforms.base import Transform
from connectors.transforms.insert_field import InsertFieldKey, InsertFieldValue

__all__ = ["InsertFieldKey", "InsertFieldValue", "Transform", "build_transforms", "find_transform", "transform_keys"]

TRANSFORMS: Final[tuple[type[Transform], ...]] = (InsertFieldKey, InsertFieldValue)
_NOT_YET: Final = ("predicate", "negate")


def find_transform(setting: str, name: str) -> type[Transform]:
    """The transform of this name or alias; `setting` is named in the error (`ConfigException`)."""
    for cls in TRANSFORMS:
        if name == cls.name or name in cls.aliases or name == f"{cls.__module__}.{cls.__name__}":
            return cls
    known = ", ".join(cls.name for cls in TRANSFORMS)
    raise ConfigException.invalid(setting, name, f"Class {name} could not be found. Known are: {known}")


def build_transforms(config: Mapping[str, str]) -> list[Transform]:
    """The connector's transforms in their order, configured. Raises `ConfigException`."""
    transforms = []
    for alias in _aliases(config):
        prefix = f"transforms.{alias}."
        if prefix + "type" not in config:
            raise ConfigException(f'Missing required configuration "{prefix}type" which has no default value.')
        transform = find_transform(prefix + "type", config[prefix + "type"].strip())()
        for name in _NOT_YET:
            if prefix + name in config:
                _refuse_predicate(prefix + name, config[prefix + name])
        own = {name.removeprefix(prefix): value for name, value in config.items() if name.startswith(prefix)}
        transform.configure(own)
        transforms.append(transform)
    return transforms


def transform_keys(config: Mapping[str, str]) -> ConfigDef:
    """The settings of the transforms that a configuration names, under their full names, for validation and forms."""
    keys = ConfigDef()
    for alias in dict.fromkeys(_aliases(config)):
        prefix, group = f"transforms.{alias}.", f"Transforms: {alias}"
        keys.define(
            prefix + "type",
            ConfigType.CLASS,
            validator=_is_transform,
            importance=Importance.HIGH,
            documentation=f"The class of the transform {alias}.",
            group=group,
            display_name="Transform class",
        )
        for name in _NOT_YET:
            if prefix + name in config:
                keys.define(
                    prefix + name,
                    ConfigType.STRING,
                    default=None,
                    validator=_refuse_predicate,
                    documentation="Not supported yet: leave it out.",
                    group=group,
                )
        try:
            own = find_transform(prefix + "type", config.get(prefix + "type", "").strip()).config_def()
        except ConfigException:
            continue  # the validator of `type` says so
        for order, key in enumerate(own.keys.values(), start=2):
            keys.add(
                replace(key, name=prefix + key.name, display_name=key.display_name, group=group, order_in_group=order)
            )
    return keys


def _aliases(config: Mapping[str, str]) -> list[str]:
    return [alias.strip() for alias in config.get("transforms", "").split(",") if alias.strip()]


def _is_transform(name: str, value: object) -> None:
    find_transform(name, str(value))


def _refuse_predicate(name: str, value: object) -> None:
    raise ConfigException.invalid(name, value, "predicates are not supported yet; remove this setting")
