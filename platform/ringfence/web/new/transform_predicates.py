"""Limits transforms to some records: the predicates of a configuration, as a form shows and changes them. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ringfence.connectors.api import ConfigException
from ringfence.connectors.transforms import find_predicate
from ringfence.connectors.transforms.registry import aliases

LIST: Final = "predicates"
_JAVA: Final = "org.apache.kafka.connect.transforms.predicates."
_ALIASES: Final = {"TopicNameMatches": "topicMatches", "HasHeaderKey": "hasHeader", "RecordIsTombstone": "isTombstone"}
_TITLES: Final = {
    "TopicNameMatches": "Only topics that match a pattern",
    "HasHeaderKey": "Only records with a header",
    "RecordIsTombstone": "Only records without a value",
}


@dataclass(frozen=True, slots=True)
class Kind:
    """A predicate to choose. type: the value of `predicates.<alias>.type`."""

    title: str
    type: str


KINDS: Final = tuple(Kind(title, _JAVA + name) for name, title in _TITLES.items())


def predicate_of(config: Mapping[str, str], transform: str) -> str:
    """Return the predicate that limits a transform; "" if it applies to all records."""
    return config.get(f"transforms.{transform}.predicate", "").strip()


def describe(config: Mapping[str, str], predicate: str) -> str:
    """Describe what a predicate accepts, or name its class if it is not one of ours."""
    type_ = config.get(f"{LIST}.{predicate}.type", "").strip()
    try:
        return _TITLES[find_predicate("type", type_).name]
    except ConfigException:
        return f"Only what {type_.rpartition('.')[2] or predicate} accepts"


def limit(config: Mapping[str, str], transform: str, type_: str) -> dict[str, str]:
    """Limit the transform to records that a new predicate of that class accepts."""
    predicates = aliases(config, LIST)
    name = (
        _ALIASES.get(type_.rpartition(".")[2]) or re.sub(r"[^A-Za-z0-9]", "", type_.rpartition(".")[2]) or "predicate"
    )
    used_names = {*predicates, *(key.split(".")[1] for key in config if key.startswith(f"{LIST}."))}
    alias = next(free for n in range(1, 10_000) if (free := name if n == 1 else f"{name}{n}") not in used_names)
    new_config = {**config, LIST: ",".join([*predicates, alias]), f"{LIST}.{alias}.type": type_}
    return share(new_config, transform, alias)


def share(config: Mapping[str, str], transform: str, predicate: str) -> dict[str, str]:
    """Limit the transform to records that this predicate accepts."""
    return {**config, f"transforms.{transform}.predicate": predicate}


def widen(config: Mapping[str, str], transform: str) -> dict[str, str]:
    """Apply the transform to all records. Its predicate is removed, unless another transform uses it."""
    predicate, mine = predicate_of(config, transform), f"transforms.{transform}."
    rest = {key: value for key, value in config.items() if key not in (f"{mine}predicate", f"{mine}negate")}
    other_predicates = {predicate_of(rest, each) for each in aliases(rest, "transforms")}
    if not predicate or predicate in other_predicates:
        return rest
    remaining = [each for each in aliases(rest, LIST) if each != predicate]
    rest = {key: value for key, value in rest.items() if key != LIST and not key.startswith(f"{LIST}.{predicate}.")}
    return {**rest, LIST: ",".join(remaining)} if remaining else rest
