"""What one open page still has to hear, and the events that tell it."""

import asyncio
import json

from ringfence.access.principal import EVERYBODY_HERE, Principal
from ringfence.projection.change_notifications import Notice
from ringfence.web.live.numbers import Numbers

MANY = 60
"""More names than this are not told one by one: a page shows fifty."""


class Listener:
    """One open page. `name`: the connector it shows, None for all that `who` may see. `audit`: it shows the audit
    trail, or what can only be changed with an entry there, and no connectors. `tasks`: it shows numbers of each task.
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
        """Its connector's numbers are to be looked up."""
        self.only_numbers = True
        """Nothing else has changed since the last event."""
        self._given: Numbers = {}
        self._known: Numbers = {}
        self._looked_ms = 0
        self.changed = asyncio.Event()
        self.urgent = asyncio.Event()
        """Set where more than numbers has changed."""
        self._at_ms = 0
        self._whole = False
        self._vital = False
        self._rows: set[str] = set()

    def tell(self, notice: Notice, at_ms: int = 0) -> None:
        """Wake the page where it shows something of this."""
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
        """What its numbers are, or were since then."""
        self._looked_ms = at_ms
        self._given = {id: text for id, text in numbers.items() if self._known.get(id) != text}
        self._known = numbers
        self.woken.set()

    def take_numbers(self) -> str:
        """The event with those that are new; "" for none."""
        given, self._given = self._given, {}
        told = {"at": self._looked_ms, "html": given}
        return f"event: numbers\ndata: {json.dumps(told)}\n\n" if given else ""

    def tell_vital_signs(self, at_ms: int) -> None:
        """The cluster's signs of life have changed, and with them what all states are worth."""
        self._vital = True
        self.urgent.set()
        self.look_again(at_ms)

    def look_again(self, at_ms: int) -> None:
        """Wake the page though nothing was told."""
        self._at_ms = at_ms
        self._whole = True
        self.only_numbers = False
        self._wake()

    def take(self) -> str:
        """The event that tells all that came since the last one."""
        self.changed.clear()
        self.urgent.clear()
        whole, vital, rows = self._whole, self._vital, sorted(self._rows)
        self._whole = self._vital = False
        self.only_numbers = True
        self._rows.clear()
        head = "event: vital\ndata: .\n\n" if vital else ""
        if whole:
            return f"{head}event: changed\ndata: {self._at_ms}\n\n"
        told = {"at": self._at_ms, "names": rows if len(rows) <= MANY else None}
        return f"event: rows\ndata: {json.dumps(told)}\n\n"
