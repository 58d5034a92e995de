"""What a transform is: it changes one record at a time, between the connector and the converters."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from types import new_class
from typing import ClassVar, Final, Generic, TypeVar, cast

from ringfence.connectors.api import (
    ConfigDef,
    ConfigType,
    ConnectorError,
    Importance,
    Schema,
    SchemaType,
    SourceRecord,
    Struct,
)
from ringfence.connectors.columns import Column

JAVA: Final = "org.apache.kafka.connect.transforms."
"""The package of the Java classes that these are twins of."""


class Transform(ABC):
    """Changes or drops records. One instance serves one task, on one thread."""

    name: ClassVar[str]
    """The name in `transforms.<alias>.type`."""
    aliases: ClassVar[tuple[str, ...]] = ()

    _CONFIG_DEF: ClassVar[ConfigDef]

    @classmethod
    def config_def(cls) -> ConfigDef:
        """The transform's own settings, without the prefix (`transforms.<alias>.`); here `_CONFIG_DEF`."""
        return cls._CONFIG_DEF

    @abstractmethod
    def configure(self, config: Mapping[str, str]) -> None:
        """Take the settings, prefix stripped. Raises `ConfigException`."""

    @abstractmethod
    def apply(self, record: SourceRecord) -> SourceRecord | None:
        """The record to go on with, the given one where nothing changes, or None to drop it.

        A changed record is a new object: the connector's own record stays as it is. Raises `ConnectorError`.
        """

    @property
    def class_name(self) -> str:
        """The class that the error of a record names."""
        return type(self).__name__

    @property
    def by_column(self) -> bool:
        """Whether `apply_column` can do it, as it is configured."""
        return False

    def apply_column(self, column: Column) -> bool:
        """Change topic, schema and values of many records at once, exactly as `apply` changes each.

        False, or any error, where that cannot be done with these: the column is thrown away, and `apply` is called
        for each of its records. So nothing may be remembered of a column.
        """
        return False

    def close(self) -> None:  # noqa: B027 - optional to override
        """Free what `configure` took."""


class KeyOrValue(Transform):
    """A transform of the record's key or of its value; `halves` makes the two classes of it."""

    on_key: ClassVar[bool]

    def target(self, record: SourceRecord) -> tuple[Schema | None, object]:
        """The schema and the value that it is about. A struct without a schema beside it has its own; a mapping with
        a struct's schema becomes one.
        """
        schema, value = (record.key_schema, record.key) if self.on_key else (record.value_schema, record.value)
        if value.__class__ is Struct:
            if schema is None:
                schema = value.schema
        elif schema is not None and schema.type is SchemaType.STRUCT and isinstance(value, Mapping):
            value = Struct(schema, value)
        return schema, value

    def replace_part(self, record: SourceRecord, schema: Schema | None, value: object) -> SourceRecord:
        """A record with another key or value."""
        changed = record.copy()
        if self.on_key:
            changed.key_schema, changed.key = schema, value
        else:
            changed.value_schema, changed.value = schema, value
        return changed

    def mapping(self, record: SourceRecord, value: object) -> Mapping[str, object]:
        """The value, which must be a mapping as it has no schema."""
        if isinstance(value, Mapping):
            return value
        raise self._wrong(record, value, "a mapping, or a struct with its schema")

    def struct(self, record: SourceRecord, value: object) -> Struct:
        """The value, which must be a struct as it has a schema."""
        if isinstance(value, Struct):
            return value
        raise self._wrong(record, value, "a struct where there is a schema")

    def _wrong(self, record: SourceRecord, value: object, wanted: str) -> ConnectorError:
        half = "key" if self.on_key else "value"
        return ConnectorError(
            f"{self.name} takes {wanted}, and a record for topic {record.topic} has a {type(value).__name__} as its "
            f"{half}: set a predicate for the records that it is for."
        )


_T = TypeVar("_T", bound=KeyOrValue)


def halves(cls: type[_T]) -> tuple[type[_T], type[_T]]:
    """The transform of keys and the one of values, named as Kafka Connect does: `Cast$Key`, `Cast$Value`."""
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


_Made = TypeVar("_Made")


class Rebuilt(Generic[_Made]):
    """What becomes of each schema that comes along: made once, as there are few of them."""

    def __init__(self, build: Callable[[Schema], _Made]) -> None:
        self._build = build
        self._known: dict[Schema, _Made] = {}
        self._last: Schema | None = None
        self._made: _Made | None = None

    def __call__(self, schema: Schema) -> _Made:
        if schema is self._last and self._made is not None:
            return self._made
        made = self._known.get(schema)
        if made is None:
            if len(self._known) >= 64:
                self._known.clear()
            made = self._known[schema] = self._build(schema)
        self._last, self._made = schema, made
        return made


def basics(schema: Schema, fields: Mapping[str, Schema] | None = None, **more: object) -> Schema:
    """A struct with the name, version, text and parameters of another schema: nothing of whether it may be null."""
    changes: dict[str, object] = {"type": SchemaType.STRUCT, "keys": None, "values": None} if fields is not None else {}
    return schema.but(**{"optional": False, "default": None, "fields": (fields or {}).items(), **changes, **more})


def replace_null(keys: ConfigDef) -> ConfigDef:
    """Adds the setting that the transforms of structs share."""
    return keys.define(
        "replace.null.with.default",
        ConfigType.BOOLEAN,
        default=True,
        importance=Importance.MEDIUM,
        documentation="Whether a field that is null and has a default takes the default; else it stays null.",
    )


def values_of(struct: Struct, defaults: bool) -> list[object]:
    """A list of its own with the struct's values, in the order of its fields, for another struct. See `keep_for`."""
    return (
        struct.values_or_defaults() if defaults else [keep_for(struct, name, defaults) for name in struct.schema.names]
    )


def fill_defaults(schema: Schema, rows: list[list[object]]) -> list[list[object]]:
    """The same lists, of the fields of many structs of this schema, with defaults for nulls."""
    for place, default in schema.defaulted:
        for row in rows:
            if row[place] is None:
                row[place] = default
    return rows


def value_of(struct: Struct, name: str, defaults: bool) -> object:
    """One field's value; defaults: with its default for a null."""
    return struct[name] if defaults else struct.raw_value(name)


def keep_for(struct: Struct, name: str, defaults: bool) -> object:
    """The same, for another struct: there, as in Kafka Connect, null must be allowed and not only have a default."""
    value = value_of(struct, name, defaults)
    if value is None and not defaults:
        field = struct.schema.field(name)
        if field is not None and not field.schema.optional and field.schema.default is not None:
            raise ConnectorError(
                f"Field {name} is null, which its schema does not allow: set replace.null.with.default=true to put its "
                "default there."
            )
    return value
