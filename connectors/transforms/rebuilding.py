"""What transforms rebuild of a record: schemas, once for each, and values with their defaults."""

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from ringfence.connectors.api import (
    Schema,
    SchemaType,
)

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
