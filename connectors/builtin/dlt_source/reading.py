"""One reading of a resource: its pages, each with dlt's state after it, and the values of its rows.

A step of dlt's pipe takes out rows with values that no record can hold, before the incremental fails on them.
"""

import json
import math
import queue
import threading
from collections import Counter
from collections.abc import Container, Mapping
from hashlib import blake2b
from numbers import Number
from typing import Any, ClassVar, Final, NamedTuple

from dlt.common.configuration.container import Container as InjectedContexts
from dlt.common.configuration.inject import inject_section  # type: ignore[attr-defined]
from dlt.common.json import json as dlt_json
from dlt.common.jsonpath import compile_path, extract_simple_field_name, find_values
from dlt.common.pipeline import StateInjectableContext
from dlt.common.schema import Schema
from dlt.extract import DltResource
from dlt.extract.items_transform import ItemTransform
from dlt.extract.pipe_iterator import ManagedPipeIterator
from dlt.extract.source import SourceInjectableContext, SourceSchemaInjectableContext, _DltSingleSource

from ringfence.connectors.api import DataException
from ringfence.connectors.builtin.dlt_source.resources import find_incremental, primary_key
from ringfence.connectors.builtin.dlt_source.rest_client import HugeInteger, NonFinite, last_address
from ringfence.connectors.sdk.unsupported_values import Handling, refuse_value
from ringfence.connectors.sdk.values.texts import is_unicode

UNREADABLE: Final = "\0unreadable"
"""In a list of rows, the key of one that stands for a row that cannot be read: `describe_unreadable`."""
_LEAST: Final = -(2**63)
_MOST: Final = 2**64 - 1
_STRICT: Final = json.JSONEncoder(allow_nan=False, skipkeys=True, default=lambda _value: None)


def is_finite(rows: object) -> bool:
    """Return whether no float in the rows is NaN or infinite: dlt's JSON would make null of it."""
    try:
        _STRICT.encode(rows)
    except (ValueError, RecursionError):
        return False
    return True


def are_plain(rows: object) -> bool:
    """Return whether records can hold all values as they are."""
    try:
        dlt_json.dumpb(rows)
    except (TypeError, ValueError, RecursionError):
        return False
    return is_finite(rows)


def encode_rows(rows: list[Any], *, plain: bool = False) -> bytes:
    """Return the rows as JSON, in dlt's form. NaN and infinities are written as Python does. plain: see `are_plain`."""
    if plain or is_finite(rows):
        return dlt_json.dumpb(rows)
    return json.dumps(rows, default=_in_dlts_form).encode()


def convert_row(row: object, handling: Handling) -> object:
    """Return the row with values that records can hold. Raises `DataException`, which names the column as a path."""
    try:
        return _convert(row, handling, "")
    except RecursionError:
        raise DataException("it is nested too deeply", remedy="Correct the row at its source.") from None


def describe_unreadable(row: object, key: Mapping[str, object], error: DataException) -> dict[str, object]:
    """Return what stands for the row in a list of rows, as JSON. key: the values of its primary key."""
    fields = {"reason": error.reason, "where": error.where, "row": error.row, "remedy": error.remedy}
    more = {
        "settings": [*error.settings],
        "column": _escape(error.column),
        "value": None if error.value is None else _escape(str(error.value)),
        "text": json.dumps(row, default=str, skipkeys=True),
    }
    return {**key, UNREADABLE: {**fields, **more}}


def read_unreadable(item: object) -> tuple[DataException, str] | None:
    """Return the error of a row that cannot be read, and the row as text; None for any other row."""
    fields = item.get(UNREADABLE) if isinstance(item, dict) else None
    if not isinstance(fields, dict) or "text" not in fields:
        return None
    names = ("where", "row", "column", "remedy")
    error = DataException(
        fields["reason"],
        value=fields["value"],
        settings=tuple(fields["settings"]),
        **{name: fields[name] for name in names},
    )
    return error, fields["text"]


def _convert(value: Any, handling: Handling, path: str) -> object:
    match value:
        case None | bool():
            return value
        case str():
            return value if is_unicode(value) else _treat(value, handling, path, "text with a lone surrogate")
        case int():
            fits = _LEAST <= value <= _MOST
            return value if fits else _treat(value, handling, path, "an integer of more than 64 bits")
        case HugeInteger():
            return _treat(value, handling, path, "an integer of more than 64 bits")
        case float():
            overflows = math.isinf(value) and not isinstance(value, NonFinite)
            return _treat(value, handling, path, "a number beyond the range of a double") if overflows else value
        case dict():
            return {_key(key, path): _convert(inner, handling, _below(path, key)) for key, inner in value.items()}
        case list() | tuple():
            return [_convert(inner, handling, f"{path}[{index}]") for index, inner in enumerate(value)]
        case _:
            try:
                return json.loads(dlt_json.dumpb(value))
            except (TypeError, ValueError) as error:
                reason = f"a value of the type {type(value).__name__}, which JSON does not have"
                raise DataException(reason, column=path, remedy="Convert it in the source.") from error


def _treat(value: object, handling: Handling, path: str, reason: str) -> str | None:
    match handling:
        case Handling.NULL:
            return None
        case Handling.TEXT:
            return _escape(str(value))
        case Handling.FAIL:
            raise refuse_value(reason, value, column=path)


def _escape(text: str) -> str:
    """Return the text with lone surrogates as escapes, such as `\\ud800`."""
    return text.encode("utf-8", "backslashreplace").decode()


def _key(key: object, path: str) -> str:
    text = str(key)
    if not is_unicode(text):
        raise DataException("the name of a field has a lone surrogate", column=path, remedy="Correct it at its source.")
    return text


def _below(path: str, key: object) -> str:
    return f"{path}.{key}" if path else str(key)


def _in_dlts_form(value: object) -> object:
    return json.loads(dlt_json.dumpb(value))


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


State = dict[str, Any]
"""dlt's state as JSON."""

STATE_NAME: Final = "source"
"""The source's name in dlt's state. dlt would use a function's or module's name, or a random one."""

_AHEAD: Final = 2
"""The maximum number of pages to read ahead."""


class Page(NamedTuple):
    """rows: a JSON list in bytes. state: dlt's state after this page."""

    rows: bytes
    state: State


class Reading:
    """Reads on a thread of its own: an API may take minutes per page, which a task's `poll` must not."""

    def __init__(
        self,
        resource: DltResource,
        state: State | None,
        handling: Handling = Handling.FAIL,
        reported: Container[bytes] = frozenset(),
    ) -> None:
        """handling: of values that no record can hold. reported: see `RowStep`."""
        self._resource = resource
        self._state: State = dlt_json.typed_loads(json.dumps(state or {}))
        self._step = RowStep(resource, _last_cursor(resource, self._state), handling, reported)
        resource._pipe.append_step(self._step)
        self._pages: queue.Queue[Page | BaseException | None] = queue.Queue(_AHEAD)
        self._stopped = threading.Event()
        threading.Thread(target=self._run, name=f"dlt-{resource.name}", daemon=True).start()

    def take(self, seconds: float) -> Page | None:
        """Return the next page; None at the end. Raises `queue.Empty` after `seconds`, and what the resource raised."""
        page = self._pages.get(timeout=seconds)
        if isinstance(page, BaseException):
            raise page
        return page

    def stop(self) -> None:
        self._stopped.set()

    def _run(self) -> None:
        try:
            for items in _open_pages(self._resource, self._state):
                if not self._put(self._page(_rows_of(items))):
                    return
            # Rows after the last page may have been read and filtered out; the state includes them.
            if self._put(self._page([])):
                self._put(None)
        except BaseException as error:  # noqa: BLE001 - raised again in the task's thread
            self._put(error)

    def _page(self, rows: list[Any]) -> Page:
        rows = [*rows, *self._step.take_unreadable()]
        return Page(encode_rows(rows, plain=self._step.plain), self._freeze())

    def _put(self, item: Page | BaseException | None) -> bool:
        while not self._stopped.is_set():
            try:
                self._pages.put(item, timeout=0.2)
            except queue.Full:
                continue
            return True
        return False

    def _freeze(self) -> State:
        frozen: State = json.loads(dlt_json.typed_dumps(self._state))
        return frozen


def _last_cursor(resource: DltResource, state: State) -> object:
    """Return the newest cursor in dlt's state; None if there is none."""
    incremental = find_incremental(resource)
    value: Any = state
    path = ("sources", STATE_NAME, "resources", resource.name, "incremental")
    for name in (*path, "" if incremental is None else str(incremental.cursor_path), "last_value"):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _open_pages(resource: DltResource, state: State) -> Any:
    """Do what `DltResource.__iter__` does, with our state, and page by page."""
    section = resource._get_config_section_context()
    section.source_state_key = STATE_NAME
    source = _DltSingleSource(Schema(STATE_NAME), resource.section, [resource])
    state_context = StateInjectableContext(state=state)  # type: ignore[arg-type]
    schema_context = SourceSchemaInjectableContext(source.discover_schema())
    source_context = SourceInjectableContext(source)
    container = InjectedContexts()
    with (
        inject_section(section),
        container.injectable_context(state_context),
        container.injectable_context(source_context),
        container.injectable_context(schema_context),
    ):
        pages: Any = ManagedPipeIterator.from_pipes([resource._pipe], workers=1, max_parallel_items=1)
    contexts: Any = [state_context, section, schema_context, source_context]
    pages.set_context(contexts)
    return (page.item for page in pages)


def _rows_of(items: Any) -> list[Any]:
    if hasattr(items, "to_pylist"):  # an Arrow table
        items = items.to_pylist()
    return items if isinstance(items, list) else [items]
