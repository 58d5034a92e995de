"""The changes that one open page has not received yet, and the events that it gets."""

import asyncio
import json

from ringfence.access.principal import EVERYBODY_HERE, Principal
from ringfence.projection.change_notifications import Notice
from ringfence.web.live.numbers import Numbers

MANY = 60
"""More changed rows than this are sent as "many": a page shows fifty."""


class Listener:
    """One open page. name: the connector it shows, None for all that `who` may see. audit: it shows the audit trail, or
    something that changes only with an audit entry, and no connectors. tasks: it shows each task's numbers.
    """

    def __init__(
        self, name: str | None, who: Principal = EVERYBODY_HERE, *, audit: bool = False, tasks: bool = False
    ) -> None:
        self.name = name
        self.who = who
        self.audit = audit
        self.tasks = tasks
        self.woken = asyncio.Event()
        self.moved = False
        """Whether its connector's numbers must be read again."""
        self.only_numbers = True
        """Whether only numbers have changed since the last event."""
        self._changes: Numbers = {}
        self._numbers: Numbers = {}
        self._looked_ms = 0
        self.changed = asyncio.Event()
        self.urgent = asyncio.Event()
        """Set if more than numbers has changed."""
        self._at_ms = 0
        self._whole = False
        self._vital = False
        self._rows: set[str] = set()

    def tell(self, notice: Notice, at_ms: int = 0) -> None:
        """Wake the page if the notice concerns it."""
        if self.audit:
            return
        if self.name is None:
            urgent = whole = notice.other or bool(self.who.filter_names(notice.changed))
            rows = self.who.filter_names(notice.moved)
        else:
            urgent = self.name in notice.changed
            moved = self.name in notice.moved
            self.moved = self.moved or moved
            self.only_numbers = self.only_numbers and not (urgent or notice.other)
            whole, rows = urgent or notice.other or moved, []
        if urgent:
            self.urgent.set()
        if whole or rows:
            self._at_ms = at_ms
            self._whole = self._whole or whole
            self._rows.update(rows)
            self._wake()

    def _wake(self) -> None:
        self.changed.set()
        self.woken.set()

    def give(self, numbers: Numbers, at_ms: int) -> None:
        """Set its numbers, as read at or after that time."""
        self._looked_ms = at_ms
        self._changes = {id: text for id, text in numbers.items() if self._numbers.get(id) != text}
        self._numbers = numbers
        self.woken.set()

    def take_numbers(self) -> str:
        """Return an event with the numbers that changed; "" if none did."""
        numbers, self._changes = self._changes, {}
        data = {"at": self._looked_ms, "html": numbers}
        return f"event: numbers\ndata: {json.dumps(data)}\n\n" if numbers else ""

    def tell_vital_signs(self, at_ms: int) -> None:
        """Wake the page because the vital signs have changed, and with them the reliability of all states."""
        self._vital = True
        self.urgent.set()
        self.look_again(at_ms)

    def look_again(self, at_ms: int) -> None:
        """Wake the page without a notice."""
        self._at_ms = at_ms
        self._whole = True
        self.only_numbers = False
        self._wake()

    def take(self) -> str:
        """Return one event for everything since the last one."""
        self.changed.clear()
        self.urgent.clear()
        whole, vital, rows = self._whole, self._vital, sorted(self._rows)
        self._whole = self._vital = False
        self.only_numbers = True
        self._rows.clear()
        head = "event: vital\ndata: .\n\n" if vital else ""
        if whole:
            return f"{head}event: changed\ndata: {self._at_ms}\n\n"
        data = {"at": self._at_ms, "names": rows if len(rows) <= MANY else None}
        return f"event: rows\ndata: {json.dumps(data)}\n\n"
