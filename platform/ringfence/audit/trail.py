"""The audit trail: a draft for each write, with what it may change, and single entries for logins and accounts; the
entries that a user may see, and in words what a request did.
"""

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

from django.db import Error as DatabaseError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from ringfence import after_answer
from ringfence.access.client_address import address_of
from ringfence.access.principal import Principal, Verb
from ringfence.audit.models import AuditEntry, Outcome
from ringfence.fencing import stages
from ringfence.fencing.clock import epoch_ms
from ringfence.http.masking import Masker
from ringfence.projection import offset_rows
from ringfence.projection.models import find_connector
from ringfence.projection.offset_rows import TooManyOffsets
from ringfence.read_your_writes import answered

CREATE: Final = "create"
"""The action of an entry about a connector that was created: the permission for that is `edit`."""
_LONGEST = 1000


SHOWN = 200
"""The most source offsets and changed keys that an entry lists. It counts all of them."""


@dataclass(frozen=True, slots=True)
class AuditContext:
    """display: for the trail, with masked secrets, None if there is no such connector. clear: only for comparison."""

    display: dict[str, Any] | None
    clear: dict[str, Any] = field(default_factory=dict, repr=False)

    def changed_keys(self, after: "AuditContext") -> list[str]:
        """Return the keys whose values differ, including secret ones."""
        keys = self.clear.keys() | after.clear.keys()
        return sorted(key for key in keys if self.clear.get(key) != after.clear.get(key))[:SHOWN]


def facts(verb: Verb, name: str) -> AuditContext:
    """Return what writes with this permission change: configuration, target state, or source offsets."""
    row = find_connector(name)
    if verb in (Verb.OFFSETS, Verb.SHARE_GROUPS):
        return _offsets(name)
    if row is None:
        return AuditContext(None)
    state = {"target": row.target, "generation": row.generation}
    if verb in (Verb.EDIT, Verb.DELETE):
        config = Masker([row.class_name]).mask(row.settings)
        return AuditContext({"config": config, "target": row.target}, dict(row.settings))
    return AuditContext(state, {"target": row.target})


def _offsets(name: str) -> AuditContext:
    try:
        rows = offset_rows.read(name)
    except TooManyOffsets:
        return AuditContext({"count": offset_rows.count(name)})
    entries = [{"partition": json.loads(partition), "offset": json.loads(offset)} for partition, offset in rows[:SHOWN]]
    return AuditContext({"offsets": entries, "count": len(rows)}, dict(rows))


_NO_FACTS = AuditContext(None)

log = logging.getLogger(__name__)


def record(action: str, *, user: str, via: str, address: str, outcome: Outcome, **more: Any) -> None:
    """Write a complete entry. before, after: any JSON, without secrets."""
    for key in ("before", "after"):
        if key in more:
            more[key] = json.dumps(more[key], ensure_ascii=False, default=str)
    AuditEntry.objects.create(
        time_ms=epoch_ms(),
        action=action,
        user=user[:_LONGEST],
        via=via,
        address=address,
        outcome=outcome,
        completed=True,
        **more,
    )


class Draft:
    """The entries of one writing request: one for each connector that it concerns.

    1 an entry is written before the connector is touched (without a database nothing is written), 2 the view runs, 3
    its answer completes the entry, behind the answer itself (`after_answer`). If the process dies in between, the
    outcome stays UNKNOWN.
    """

    def __init__(self, request: HttpRequest, who: Principal, verb: Verb | None) -> None:
        """verb: None if the write concerns no connector and needs no permission; the view then names the
        action (`record_change`).
        """
        self._verb = verb
        self._account = who.name
        self._common = {
            "user": who.name[:_LONGEST],
            "via": who.via,
            "address": address_of(request),
            "action": verb.value if verb else "write",
            "request": f"{request.method} {request.get_full_path()}"[:_LONGEST],
        }
        self._entries: dict[str, tuple[int, AuditContext]] = {}
        self.message = ""
        self.items: dict[str, tuple[int, str]] = {}
        self.details: dict[str, str] = {}

    def about(self, connector: str) -> None:
        """Add this connector: the request is about to change it, or asks to."""
        if connector not in self._entries:
            with stages.stage("audit"):
                before = facts(self._verb, connector) if connector and self._verb else _NO_FACTS
                self._entries[connector] = (self._begin(connector, before), before)

    def _begin(self, connector: str, before: AuditContext) -> int:
        entry = AuditEntry.objects.create(
            time_ms=epoch_ms(),
            connector=connector[:_LONGEST],
            before=json.dumps(before.display, ensure_ascii=False),
            **self._common,
        )
        return int(entry.pk)

    def entry_of(self, connector: str) -> int | None:
        """Return the number of the entry about this connector."""
        entry = self._entries.get(connector)
        return entry[0] if entry else None

    def finish(self, response: HttpResponseBase) -> None:
        """Complete the entries with the answer, once it is sent."""
        message = ". ".join(filter(None, (self.message, _message(response))))
        if self._entries:
            after_answer.do(self._account, partial(self._complete, response.status_code, message))
        else:  # the view reached no connector: the body could not be read
            self._complete(response.status_code, message)

    def _complete(self, code: int, message: str) -> None:
        try:
            answered.settle(self._account)
            if not self._entries:
                self.about("")
            for connector, (number, before) in self._entries.items():
                status, text = self.items.get(connector, (code, message))
                outcome = Outcome.of(status)
                values: dict[str, Any] = {"outcome": outcome, "status": status, "message": text[:_LONGEST]}
                if connector and self._verb and outcome in (Outcome.DONE, Outcome.UNKNOWN):
                    after = facts(self._verb, connector)
                    values["after"] = json.dumps(after.display, ensure_ascii=False)
                    values["changed"] = json.dumps(before.changed_keys(after), ensure_ascii=False)
                    if self._verb is Verb.EDIT and after.display and not before.display:
                        values["action"] = CREATE
                elif not connector and outcome in (Outcome.DONE, Outcome.UNKNOWN):
                    values |= self.details
                AuditEntry.objects.complete(number, **values)
        except DatabaseError as error:
            # The write is done, and its answer must not deny that: the entry stays incomplete.
            log.error("The audit entry of %s could not be completed: %s", self._common["request"], error)  # noqa: TRY400


def record_change(request: HttpRequest, *, before: object, after: object, action: str = "") -> None:
    """Record what a write without a connector changes: any JSON, without secrets. action: its name."""
    draft = getattr(request, "ringfence_draft", None)
    if draft is not None:
        draft.details = {
            "before": json.dumps(before, ensure_ascii=False),
            "after": json.dumps(after, ensure_ascii=False),
        }
        draft.details |= {"action": action} if action else {}


def came_to(request: HttpRequest, connector: str, status: int, message: str) -> None:
    """Record the outcome for one connector, in a request about many with separate outcomes."""
    draft = getattr(request, "ringfence_draft", None)
    if draft is not None:
        draft.items[connector] = (status, message)


def note(request: HttpRequest, message: str) -> None:
    """Record a page's failure message, or the reason of a write. The API's errors are read from their bodies."""
    draft = getattr(request, "ringfence_draft", None)
    if draft is not None:
        draft.message = message


def entry_of(request: HttpRequest, connector: str) -> int | None:
    """Return the number of this request's entry about a connector, for a link in its answer."""
    draft = getattr(request, "ringfence_draft", None)
    return draft.entry_of(connector) if draft is not None else None


def _message(response: HttpResponseBase) -> str:
    """Return the message of the API's error."""
    if response.status_code < 400 or not isinstance(response, HttpResponse):
        return ""
    try:
        body = json.loads(response.content)
    except ValueError:
        return ""
    return str(body.get("message") or body.get("detail") or "") if isinstance(body, dict) else ""


def entries(who: Principal) -> QuerySet[AuditEntry]:
    """Return the entries that a user may see, newest first.

    The permission `admin` on every connector shows all entries. Other users see those about connectors whose
    configuration they may view, because entries contain configurations.
    """
    rows: QuerySet[AuditEntry] = AuditEntry.objects.order_by("-time_ms", "-id")
    if not who.may_everywhere(Verb.ADMIN):
        rows = rows.exclude(connector="").filter(who.query(Verb.VIEW_CONFIG, "connector"))
    return rows


_DEEDS: Final[Mapping[str, str]] = {
    "pause": "Paused",
    "resume": "Resumed",
    "stop": "Stopped",
    "restart": "Restarted",
    "restart-failed": "Failed tasks restarted",
    "fence": "Fenced",
    "round": "Fencing round started again",
    "level": "Log level changed",
    "rollback": "Configuration rolled back",
    "offsets": "Source offsets changed",
    "reset": "Source offsets reset",
    "delete": "Deleted",
}
"""By the last word of the address."""
_ACTIONS: Final[Mapping[str, str]] = {
    "edit": "Configuration changed",
    "create": "Created",
    "operate": "Operated",
    "offsets": "Source offsets changed",
    "fence": "Fenced",
    "delete": "Deleted",
}


def describe_deed(entry: AuditEntry) -> str:
    """Return what was done, such as `Paused`; without a word for it, the action."""
    address = entry.request.partition(" ")[2]
    words = [word for word in urlsplit(address).path.split("/") if word]
    deed = _DEEDS.get(words[-1], "") if words else ""
    return deed or _ACTIONS.get(entry.action, entry.action.capitalize())
