"""Transforms: small changes to each record, by configuration alone.

`transforms=a,b` lists aliases in their order; `transforms.a.type` is the class of `a`, and other `transforms.a.*` are
its settings. `transforms.a.predicate=p` limits it to the records that the predicate `p` accepts (`predicates=p`,
`predicates.p.type`); with `transforms.a.negate=true`, to the others.
"""

from collections.abc import Mapping

from ringfence.connectors.api import ConfigException
from ringfence.connectors.transforms.base import Transform
from ringfence.connectors.transforms.predicates import ConditionalTransform, Predicate
from ringfence.connectors.transforms.registry import (
    aliases,
    check_negate,
    check_predicate,
    check_version,
    find_predicate,
    find_transform,
    framework_keys,
    transform_keys,
)

__all__ = ["Predicate", "Transform", "build_transforms", "find_predicate", "find_transform", "transform_keys"]


def build_transforms(config: Mapping[str, str]) -> list[Transform]:
    """Return the connector's transforms in their order, configured, with their predicates. Raises `ConfigException`."""
    return [_transform(config, f"transforms.{alias}.") for alias in aliases(config, "transforms")]


def _transform(config: Mapping[str, str], prefix: str) -> Transform:
    transform = find_transform(prefix + "type", _type(config, prefix))()
    own = _below(config, prefix)
    implied = framework_keys().parse(own)
    check_negate(config, prefix)
    check_version(prefix + "plugin.version", implied["plugin.version"])
    transform.configure(own)
    if implied["predicate"] is None:
        return transform
    alias = implied.string("predicate")
    check_predicate(config, prefix + "predicate", alias)
    return ConditionalTransform(transform, _predicate(config, f"predicates.{alias}."), negate=implied.boolean("negate"))


def _predicate(config: Mapping[str, str], prefix: str) -> Predicate:
    predicate = find_predicate(prefix + "type", _type(config, prefix))()
    own = _below(config, prefix)
    if "plugin.version" in own:
        check_version(prefix + "plugin.version", own["plugin.version"].strip())
    predicate.configure(own)
    return predicate


def _type(config: Mapping[str, str], prefix: str) -> str:
    if prefix + "type" not in config:
        raise ConfigException(f'Missing required configuration "{prefix}type" which has no default value.')
    return config[prefix + "type"].strip()


def _below(config: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {name.removeprefix(prefix): value for name, value in config.items() if name.startswith(prefix)}
