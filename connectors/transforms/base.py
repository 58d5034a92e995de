"""The interface of transforms, which change one record at a time between connector and converters; and what they
rebuild of a record: schemas, once for each, and values with their defaults.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import new_class
from typing import ClassVar, Final, Generic, TypeVar, cast

from ringfence.connectors.api import (
    ConfigDef,
    ConfigType,
    ConnectorError,
    Importance,
    NonEmpty,
    Schema,
    SchemaType,
    SourceRecord,
    Struct,
)
from ringfence.connectors.api.schemas import describe_kind
from ringfence.connectors.columns import Column

JAVA: Final = "org.apache.kafka.connect.transforms."
"""The package of the Java counterparts."""


class Transform(ABC):
    """Changes or drops records. One instance serves one task, on one thread."""

    name: ClassVar[str]
    """The name in `transforms.<alias>.type`."""
    aliases: ClassVar[tuple[str, ...]] = ()

    _CONFIG_DEF: ClassVar[ConfigDef]

    @classmethod
    def config_def(cls) -> ConfigDef:
        """Return the transform's own settings, without the prefix (`transforms.<alias>.`); by default `_CONFIG_DEF`."""
        return cls._CONFIG_DEF

    @abstractmethod
    def configure(self, config: Mapping[str, str]) -> None:
        """Apply the settings, given without the prefix. Raises `ConfigException`."""

    @abstractmethod
    def apply(self, record: SourceRecord) -> SourceRecord | None:
        """Return the transformed record, the given one if nothing changes, or None to drop it.

        A changed record is a new object: the connector's own record stays unchanged. Raises `ConnectorError`.
        """

    @property
    def class_name(self) -> str:
        """The class that a record's error names."""
        return type(self).__name__

    @property
    def by_column(self) -> bool:
        """Whether `apply_column` supports the current configuration."""
        return False

    def apply_column(self, column: Column) -> bool:
        """Change topic, schema and values of many records at once, exactly as `apply` changes each.

        Return False, or raise, if that is not possible: the column is discarded, and `apply` is called for each of its
        records. So no state of a column may be kept.
        """
        return False

    def close(self) -> None:  # noqa: B027 - optional to override
        """Free the resources that `configure` acquired."""


class KeyOrValue(Transform):
    """A transform of the record's key or value; `halves` makes its two classes."""

    on_key: ClassVar[bool]

    def target(self, record: SourceRecord) -> tuple[Schema | None, object]:
        """Return the schema and the value to transform. A struct without a separate schema has its own; a mapping with
        a struct's schema is converted to a struct.
        """
        schema, value = (record.key_schema, record.key) if self.on_key else (record.value_schema, record.value)
        if value.__class__ is Struct:
            if schema is None:
                schema = value.schema
        elif schema is not None and schema.type is SchemaType.STRUCT and isinstance(value, Mapping):
            value = Struct(schema, value)
        return schema, value

    def replace_part(self, record: SourceRecord, schema: Schema | None, value: object) -> SourceRecord:
        """Return a record with another key or value."""
        changed = record.copy()
        if self.on_key:
            changed.key_schema, changed.key = schema, value
        else:
            changed.value_schema, changed.value = schema, value
        return changed

    def mapping(self, record: SourceRecord, value: object) -> Mapping[str, object]:
        """Return the value, which must be a mapping because it has no schema."""
        if isinstance(value, Mapping):
            return value
        raise self._wrong(record, value, "a mapping, or a struct with its schema")

    def struct(self, record: SourceRecord, value: object) -> Struct:
        """Return the value, which must be a struct because it has a schema."""
        if isinstance(value, Struct):
            return value
        raise self._wrong(record, value, "a struct, since it has a schema")

    def _wrong(self, record: SourceRecord, value: object, description: str) -> ConnectorError:
        half = "key" if self.on_key else "value"
        return ConnectorError(
            f"{self.name} takes {description}, but a record for topic {record.topic} has {describe_kind(value)} "
            f"as its {half}: set a predicate that selects matching records."
        )


_T = TypeVar("_T", bound=KeyOrValue)


def halves(cls: type[_T]) -> tuple[type[_T], type[_T]]:
    """Return the transform for keys and the one for values, named as in Kafka Connect: `Cast$Key`, `Cast$Value`."""
    return _half(cls, "Key"), _half(cls, "Value")


def _half(cls: type[_T], half: str) -> type[_T]:
    name = f"{cls.__name__}${half}"

    def fill(namespace: dict[str, object]) -> None:
        namespace |= {
            "on_key": half == "Key",
            "name": name,
            "aliases": (JAVA + name,),
            "__doc__": f"{cls.__name__} on the {half.lower()}.",
            "__module__": cls.__module__,
        }

    return cast("type[_T]", new_class(cls.__name__ + half, (cls,), exec_body=fill))


def define_items(keys: ConfigDef, name: str, documentation: str) -> ConfigDef:
    """Add a required list, which must not be empty."""
    importance = Importance.HIGH
    return keys.define(name, ConfigType.LIST, validator=NonEmpty(), importance=importance, documentation=documentation)


def replace_null(keys: ConfigDef) -> ConfigDef:
    """Add the setting that the transforms of structs share."""
    return keys.define(
        "replace.null.with.default",
        ConfigType.BOOLEAN,
        default=True,
        importance=Importance.MEDIUM,
        documentation="Whether a null field with a default becomes the default; otherwise it stays null.",
    )


def values_of(struct: Struct, defaults: bool) -> list[object]:
    """Return a new list of the struct's values, in the order of its fields, for another struct. See `keep_for`."""
    return (
        struct.values_or_defaults() if defaults else [keep_for(struct, name, defaults) for name in struct.schema.names]
    )


def fill_defaults(schema: Schema, rows: Sequence[list[object]]) -> Sequence[list[object]]:
    """Return the same lists, of the fields of many structs with this schema, with defaults instead of nulls."""
    for place, default in schema.defaulted:
        for row in rows:
            if row[place] is None:
                row[place] = default
    return rows


def value_of(struct: Struct, name: str, defaults: bool) -> object:
    """Return a field's value. defaults: with its default instead of null."""
    return struct[name] if defaults else struct.raw_value(name)


def keep_for(struct: Struct, name: str, defaults: bool) -> object:
    """Return a field's value for another struct. There, as in Kafka Connect, null is valid only in an
    optional field.
    """
    value = value_of(struct, name, defaults)
    if value is None and not defaults:
        field = struct.schema.field(name)
        if field is not None and not field.schema.optional and field.schema.default is not None:
            raise ConnectorError(
                f"Field {name} is null, which its schema does not allow: set replace.null.with.default=true to use "
                "its default."
            )
    return value


_Result = TypeVar("_Result")


class Rebuilt(Generic[_Result]):
    """A cache of what is built from each schema: there are few of them."""

    def __init__(self, build: Callable[[Schema], _Result]) -> None:
        self._build = build
        self._results: dict[Schema, _Result] = {}
        self._last: Schema | None = None
        self._last_result: _Result | None = None

    def __call__(self, schema: Schema) -> _Result:
        if schema is self._last and self._last_result is not None:
            return self._last_result
        result = self._results.get(schema)
        if result is None:
            if len(self._results) >= 64:
                self._results.clear()
            result = self._results[schema] = self._build(schema)
        self._last, self._last_result = schema, result
        return result


def basics(schema: Schema, fields: Mapping[str, Schema] | None = None, **more: object) -> Schema:
    """Return a struct schema with name, version, doc and parameters of another schema, but without its optionality."""
    changes: dict[str, object] = {"type": SchemaType.STRUCT, "keys": None, "values": None} if fields is not None else {}
    return schema.but(**{"optional": False, "default": None, "fields": (fields or {}).items(), **changes, **more})
