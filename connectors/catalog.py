"""Converters, header converters, transforms and predicates, under Kafka Connect's class names.

They are part of Ringfence, so the list is fixed; connectors are found as entry points (`connectors.plugins`).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from ringfence.connectors.api import ConfigDef
from ringfence.connectors.class_names import class_name as public_name
from ringfence.connectors.class_names import resolve_class_name
from ringfence.connectors.converters import CONVERTERS, HEADER_CONVERTERS, Converter, HeaderConverter
from ringfence.connectors.transforms import Predicate, Transform
from ringfence.connectors.transforms.registry import PREDICATES, TRANSFORMS, VERSION


class PartType(StrEnum):
    """The value of the field `type` in `GET /connector-plugins`."""

    CONVERTER = "converter"
    HEADER_CONVERTER = "header_converter"
    TRANSFORMATION = "transformation"
    PREDICATE = "predicate"


@dataclass(frozen=True, slots=True)
class Part:
    """class_name: the Java class of the counterpart, or else its own. names: all that users may write.

    version: Kafka Connect's, for the counterpart of one of its classes; None for others.
    """

    class_name: str
    type: PartType
    version: str | None
    names: frozenset[str]
    settings: ConfigDef


@cache
def parts() -> tuple[Part, ...]:
    """Return all parts, sorted by type and class."""
    entries = [
        *_describe(CONVERTERS, PartType.CONVERTER),
        *_describe(HEADER_CONVERTERS, PartType.HEADER_CONVERTER),
        *_describe(TRANSFORMS, PartType.TRANSFORMATION),
        *_describe(PREDICATES, PartType.PREDICATE),
    ]
    return tuple(sorted(entries, key=lambda part: (part.type, part.class_name)))


def find_part(name: str) -> Part | None:
    """Return the part with this name, class or alias; a converter takes precedence over the header converter of the
    same class.
    """
    return next((part for part in parts() if resolve_class_name(name) in part.names), None)


_Class = type[Converter] | type[HeaderConverter] | type[Transform] | type[Predicate]


def _describe(classes: Iterable[_Class], kind: PartType) -> Iterable[Part]:
    for cls in classes:
        path = public_name(cls)
        class_name = next(iter(cls.aliases), path)
        version = VERSION if class_name.startswith("org.apache.kafka.") else None
        names = frozenset({class_name, class_name.rpartition(".")[2], path, *cls.aliases})
        yield Part(class_name, kind, version, names, cls.config_def())
