"""The available transforms and predicates, by the names that a configuration may use."""

from collections.abc import Iterable
from typing import Final, TypeVar

from ringfence.connectors.api import ConfigException
from ringfence.connectors.class_names import class_name
from ringfence.connectors.transforms.base import Transform
from ringfence.connectors.transforms.cast import CastKey, CastValue
from ringfence.connectors.transforms.fields import (
    ExtractFieldKey,
    ExtractFieldValue,
    HoistFieldKey,
    HoistFieldValue,
    ValueToKey,
)
from ringfence.connectors.transforms.flatten import FlattenKey, FlattenValue
from ringfence.connectors.transforms.headers import DropHeaders, HeaderFromKey, HeaderFromValue, InsertHeader
from ringfence.connectors.transforms.insert_field import InsertFieldKey, InsertFieldValue
from ringfence.connectors.transforms.mask_field import MaskFieldKey, MaskFieldValue
from ringfence.connectors.transforms.metadata import SetSchemaMetadataKey, SetSchemaMetadataValue
from ringfence.connectors.transforms.new_record_state import ExtractNewRecordState
from ringfence.connectors.transforms.predicates import HasHeaderKey, Predicate, RecordIsTombstone, TopicNameMatches
from ringfence.connectors.transforms.replace_field import ReplaceFieldKey, ReplaceFieldValue
from ringfence.connectors.transforms.routing import Filter, RegexRouter
from ringfence.connectors.transforms.timestamps import TimestampConverterKey, TimestampConverterValue, TimestampRouter

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
        if name == cls.name or name in cls.aliases or name == class_name(cls):
            return cls
    names = ", ".join(cls.name for cls in classes)
    raise ConfigException.invalid(setting, name, f"Class {name} could not be found. Available: {names}")
