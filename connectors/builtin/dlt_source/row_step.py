"""A step of dlt's pipe that takes out rows that cannot be read, before the incremental fails on them."""

import json
import math
from collections import Counter
from collections.abc import Container
from hashlib import blake2b
from numbers import Number
from typing import Any, ClassVar, Final

from dlt.common.jsonpath import compile_path, extract_simple_field_name, find_values
from dlt.extract import DltResource
from dlt.extract.items_transform import ItemTransform

from ringfence.connectors.api import DataException
from ringfence.connectors.builtin.dlt_source.promises import find_incremental, primary_key
from ringfence.connectors.builtin.dlt_source.rest_client import last_address
from ringfence.connectors.builtin.dlt_source.row_values import are_plain, convert_row, describe_unreadable
from ringfence.connectors.unsupported_values import Handling

_MISSING: Final = 'Set "on_cursor_value_missing" of the incremental to exclude or include, or choose another cursor.'
_OTHER: Final = "Correct it at its source, or choose another cursor."


class RowStep(ItemTransform[Any, Any]):
    """Converts the rows of a page, and keeps those that cannot be read: see `take_unreadable`."""

    placement_affinity: ClassVar[float] = 0.95
    """Behind all other steps, and before the incremental."""

    def __init__(
        self, resource: DltResource, last_cursor: object, handling: Handling, reported: Container[bytes]
    ) -> None:
        """last_cursor: the newest that was delivered, None if there is none. reported: digests of rows that need not
        be reported again.
        """
        super().__init__(self._look)
        incremental = find_incremental(resource)
        self._name = resource.name
        self._handling = handling
        self._reported = reported
        self._key = primary_key(resource)
        self._cursor = "" if incremental is None else str(incremental.cursor_path)
        self._simple = extract_simple_field_name(self._cursor) if self._cursor else None
        self._path = compile_path(self._cursor) if self._cursor else None
        self._may_be_missing = incremental is not None and incremental.on_cursor_value_missing != "raise"
        self._kind = "" if last_cursor is None else _kind_of(last_cursor)
        self._unreadable: list[dict[str, object]] = []
        self.plain = False
        """Whether records can hold all values of the last page as they are."""

    def __call__(self, item: Any, meta: Any = None) -> Any:
        return self._look(item)

    def take_unreadable(self) -> list[dict[str, object]]:
        """Return what stands for the rows that were taken out since the last call."""
        rows, self._unreadable = self._unreadable, []
        return rows

    def _look(self, item: Any) -> Any:
        self.plain = False
        if not isinstance(item, list | dict):  # a table of Arrow or pandas
            return item
        rows = item if isinstance(item, list) else [item]
        self._kind = self._kind or self._most_common_kind(rows)
        plain = self.plain = are_plain(rows)
        if plain and self._path is None:
            return item
        admitted = [row for each in rows for row in self._admit(each, plain=plain)]
        if isinstance(item, list):
            return admitted or (item if not item else None)
        return admitted[0] if admitted else None

    def _admit(self, row: Any, *, plain: bool) -> list[Any]:
        """Return the row as it can be read; nothing if it cannot."""
        try:
            converted = row if plain else convert_row(row, self._handling)
            if self._path is not None and isinstance(row, dict):
                self._check_cursor(converted)
        except DataException as error:
            self._keep(row, error)
            return []
        return [converted]

    def _check_cursor(self, row: Any) -> None:
        """Raise `DataException` for a row that the incremental cannot put in order."""
        value = self._cursor_of(row)
        if value is None:
            if self._may_be_missing:
                return
            raise DataException("the cursor has no value", column=self._cursor, remedy=_MISSING)
        if isinstance(value, float) and not math.isfinite(value):
            raise DataException("the cursor is no finite number", value=value, column=self._cursor, remedy=_OTHER)
        kind = _kind_of(value)
        if kind != self._kind:
            reason = f"the cursor is {kind}, and that of other rows is {self._kind}"
            raise DataException(reason, value=value, column=self._cursor, remedy=_OTHER)

    def _cursor_of(self, row: Any) -> Any:
        assert self._path is not None
        return row.get(self._simple) if self._simple else next(iter(find_values(self._path, row)), None)

    def _most_common_kind(self, rows: list[Any]) -> str:
        """Return that of the cursors of these rows; "" if they have none."""
        if self._path is None:
            return ""
        values = (self._cursor_of(row) for row in rows if isinstance(row, dict))
        kinds = Counter(_kind_of(value) for value in values if value is not None)
        return kinds.most_common(1)[0][0] if kinds else ""

    def _keep(self, row: Any, error: DataException) -> None:
        columns = self._key if isinstance(row, dict) else ()
        key = {
            column: row[column]
            for column in columns
            if isinstance(row.get(column), str | int) and are_plain(row[column])
        }
        place = ", ".join(f"{column}={value}" for column, value in key.items())
        error.at(where=f"{self._name} from {last_address()}" if last_address() else self._name, row=place)
        item = describe_unreadable(row, key, error)
        if digest_of(item) not in self._reported:
            self._unreadable.append(item)


def _kind_of(value: object) -> str:
    match value:
        case bool():
            return "true or false"
        case Number():
            return "a number"
        case str():
            return "text"
        case _:
            return "neither text nor a number"


def digest_of(item: object) -> bytes:
    """Return the digest of what stands for a row that cannot be read."""
    return blake2b(json.dumps(item, sort_keys=True).encode(), digest_size=16).digest()
