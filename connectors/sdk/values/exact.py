"""Converts values and schemas to JSON and back without loss, for records that are processed again later.

Strings, numbers, booleans, null and lists are JSON's own; other values are objects with one member that names the type.
Schemas are in a list beside the values, which refer to them by index.
"""

import base64
import datetime
import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, cast

from ringfence.connectors.api import DistantDate, DistantTimestamp, EndOfDay, Schema, SchemaAndValue, SchemaType, Struct


class Inexact(Exception):
    """A value that cannot be represented; the message names its type, never the value."""


class Writing:
    """Converts values to JSON; `schemas` is the list that they refer to."""

    def __init__(self) -> None:
        self.schemas: list[object] = []
        self._places: dict[Schema, int] = {}

    def schema(self, schema: Schema | None) -> int | None:
        """Return the index of a schema. Raises `Inexact`."""
        if schema is None:
            return None
        place = self._places.get(schema)
        if place is None:
            index = self._schema(schema)  # inner schemas get their indexes first
            place = self._places[schema] = len(self.schemas)
            self.schemas.append(index)
        return place

    def _schema(self, schema: Schema) -> dict[str, object]:
        parts: dict[str, object] = {
            "type": schema.type.value,
            "optional": schema.optional or None,
            "default": self.value(schema.default),
            "name": schema.name,
            "version": schema.version,
            "doc": schema.doc,
            "parameters": dict(schema.parameters) or None,
            "fields": [[field.name, self.schema(field.schema)] for field in schema.fields] or None,
            "keys": self.schema(schema.keys),
            "values": self.schema(schema.values),
        }
        return {name: part for name, part in parts.items() if part is not None}

    def value(self, value: object) -> object:  # noqa: C901 - a case for each type
        """Return the value in JSON's types. Raises `Inexact`."""
        match value:
            case None | bool():
                return value
            case str():
                return str(value)
            case int():
                return int(value)
            case float():
                return float(value) if math.isfinite(value) else {"float": repr(float(value))}
            case bytes() | bytearray() | memoryview():
                return {"bytes": base64.b64encode(value).decode("ascii")}
            case Decimal():
                return {"decimal": str(value)}
            case datetime.datetime():
                return {"datetime": value.isoformat()}
            case datetime.date():
                return {"date": value.isoformat()}
            case datetime.time():
                return {"time": value.isoformat()}
            case DistantDate():
                return {"distant_date": str(value.days)}
            case DistantTimestamp():
                return {"distant_timestamp": str(value.milliseconds)}
            case EndOfDay():
                return {"end_of_day": ""}
            case Struct():
                return {"struct": [self.schema(value.schema), [self.value(each) for each in value.values]]}
            case SchemaAndValue():  # a tuple, too
                return {"typed": [self.schema(value.schema), self.value(value.value)]}
            case list():
                return [self.value(each) for each in value]
            case tuple():
                return {"tuple": [self.value(each) for each in value]}
            case Mapping():
                return {"map": [[self.value(key), self.value(each)] for key, each in value.items()]}
        raise Inexact(f"it contains a value of type {type(value).__name__}, which JSON cannot represent exactly")


class Reading:
    """Converts JSON back to values. Malformed input raises ValueError, KeyError, TypeError or IndexError."""

    def __init__(self, schemas: Sequence[object]) -> None:
        self._schemas: list[Schema] = []
        for entry in schemas:
            self._schemas.append(self._schema(cast("Mapping[str, Any]", entry)))

    def schema(self, place: object) -> Schema | None:
        if place is None:
            return None
        if not isinstance(place, int) or isinstance(place, bool) or place < 0:
            raise ValueError(f"{place!r} is not the index of a schema")
        return self._schemas[place]

    def _schema(self, content: Mapping[str, Any]) -> Schema:
        return Schema(
            SchemaType(content["type"]),
            optional=content.get("optional", False),
            default=self.value(content.get("default")),
            name=content.get("name"),
            version=content.get("version"),
            doc=content.get("doc"),
            parameters=content.get("parameters"),
            fields=[(name, self._require(place)) for name, place in content.get("fields", ())],
            keys=self.schema(content.get("keys")),
            values=self.schema(content.get("values")),
        )

    def _require(self, place: object) -> Schema:
        schema = self.schema(place)
        if schema is None:
            raise ValueError("a schema is missing")
        return schema

    def value(self, content: object) -> object:
        if isinstance(content, list):
            return [self.value(each) for each in content]
        if not isinstance(content, dict):
            return content
        ((kind, part),) = content.items()
        match kind:
            case "struct":
                return Struct.of(self._require(part[0]), [self.value(each) for each in part[1]])
            case "typed":
                return SchemaAndValue(self.schema(part[0]), self.value(part[1]))
            case "tuple":
                return tuple(self.value(each) for each in part)
            case "map":
                return {self.value(key): self.value(each) for key, each in part}
        return _SINGLE[kind](part)


_SINGLE: Final[Mapping[str, Callable[[str], object]]] = {
    "bytes": lambda text: base64.b64decode(text, validate=True),
    "float": float,
    "decimal": Decimal,
    "datetime": datetime.datetime.fromisoformat,
    "date": datetime.date.fromisoformat,
    "time": datetime.time.fromisoformat,
    "distant_date": lambda text: DistantDate(int(text)),
    "distant_timestamp": lambda text: DistantTimestamp(int(text)),
    "end_of_day": lambda _: EndOfDay(),
}
