"""Converters, header converters, transforms and predicates, under Kafka Connect's class names.

They come with Ringfence, so their list is fixed; connectors are found as entry points (`connectors.plugins`).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from ringfence.connectors.api import ConfigDef
from ringfence.connectors.class_names import class_name as public_name
from ringfence.connectors.converters import CONVERTERS, HEADER_CONVERTERS, Converter, HeaderConverter
from ringfence.connectors.transforms import Predicate, Transform
from ringfence.connectors.transforms.registry import PREDICATES, TRANSFORMS, VERSION


class PartType(StrEnum):
    """The word in the `type` field of `GET /connector-plugins`."""

    CONVERTER = "converter"
    HEADER_CONVERTER = "header_converter"
    TRANSFORMATION = "transformation"
    PREDICATE = "predicate"


@dataclass(frozen=True, slots=True)
class Part:
    """`class_name`: the Java class that this one is a twin of, or else its own; `names`: all that users may write.

    version: Kafka Connect's, for a twin of one of its classes; None for others.
    """

    class_name: str
    type: PartType
    version: str | None
    names: frozenset[str]
    settings: ConfigDef


@cache
def parts() -> tuple[Part, ...]:
    """All of them, sorted by type and class."""
    found = [
        *_describe(CONVERTERS, PartType.CONVERTER),
        *_describe(HEADER_CONVERTERS, PartType.HEADER_CONVERTER),
        *_describe(TRANSFORMS, PartType.TRANSFORMATION),
        *_describe(PREDICATES, PartType.PREDICATE),
    ]
    return tuple(sorted(found, key=lambda part: (part.type, part.class_name)))


def find_part(name: str) -> Part | None:
    """The part of this name, class or alias; a converter comes before the header converter of the same class."""
    return next((part for part in parts() if name in part.names), None)


_Class = type[Converter] | type[HeaderConverter] | type[Transform] | type[Predicate]


def _describe(classes: Iterable[_Class], kind: PartType) -> Iterable[Part]:
    for cls in classes:
        path = public_name(cls)
        class_name = next(iter(cls.aliases), path)
        version = VERSION if class_name.startswith("org.apache.kafka.") else None
        names = frozenset({class_name, class_name.rpartition(".")[2], path, *cls.aliases})
        yield Part(class_name, kind, version, names, cls.config_def())
