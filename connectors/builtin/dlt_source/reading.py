"""One reading of a resource: its pages, each with dlt's state after it."""

import json
import queue
import threading
from collections.abc import Container
from typing import Any, Final, NamedTuple

from dlt.common.configuration.container import Container as InjectedContexts
from dlt.common.configuration.inject import inject_section  # type: ignore[attr-defined]
from dlt.common.json import json as dlt_json
from dlt.common.pipeline import StateInjectableContext
from dlt.common.schema import Schema
from dlt.extract import DltResource
from dlt.extract.pipe_iterator import ManagedPipeIterator
from dlt.extract.source import SourceInjectableContext, SourceSchemaInjectableContext, _DltSingleSource

from ringfence.connectors.builtin.dlt_source.promises import find_incremental
from ringfence.connectors.builtin.dlt_source.row_step import RowStep
from ringfence.connectors.builtin.dlt_source.row_values import encode_rows
from ringfence.connectors.unsupported_values import Handling

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
