"""Pages about open transactions of all connectors, and about what waits too long.

Commands that wait in Redis for a leader are listed with their senders and deadlines, and can be cancelled.
"""

import base64
import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

import redis
from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import path
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.views.decorators.http import require_http_methods, require_safe

from ringfence import dispatch, messages, redis_clock, transport
from ringfence.access.authorise import everywhere, on_connector, principal_of, requires, somewhere
from ringfence.access.principal import Principal, Verb
from ringfence.audit.models import AuditEntry
from ringfence.console.page_parts import (
    CLOCK,
    CLUSTER,
    NOTHING,
    ActionResult,
    ConfirmPage,
    Table,
    links,
    render_live,
    run,
)
from ringfence.dispatch import COMMAND_TIMEOUT, Refusal
from ringfence.engine.questions import DescribeTransactions
from ringfence.fencing.clock import epoch_ms
from ringfence.history import old_generations
from ringfence.http.section_links import FAILURES, SIZES, TROUBLES, Reference
from ringfence.projection.health import Health, describe_wait
from ringfence.projection.models import Connector, GenerationRow, Task, find_connector
from ringfence.projection.slots import count_slots
from ringfence.web.views import is_fragment

_QUEUE = "leader"
_MOST = 500
_AWAY = "Redis does not answer ({error}), so it is unknown what waits there. Check that it runs at RINGFENCE_REDIS_URL"


@dataclass(frozen=True, slots=True)
class QueuedCommand:
    """A command that no leader has taken yet. left_s: seconds until it expires."""

    id: str
    kind: str
    connector: str
    user: str
    left_s: float


def list_queued_commands() -> list[QueuedCommand]:
    """Return the commands, oldest first, at most 500, without their bodies. Raises `Refusal` if Redis
    does not answer.
    """
    try:
        raw = transport.results.lrange(_QUEUE, -_MOST, -1)
        now = redis_clock.now(transport.results)
    except redis.RedisError as error:
        raise Refusal(503, _AWAY.format(error=type(error).__name__)) from error
    assert isinstance(raw, list)
    commands = [_read(entry, now) for entry in reversed(raw)]  # the newest is at the left end of Redis' list
    return [one for one in commands if one is not None]


def cancel(number: str, by: str) -> bool:
    """Remove a command from the queue, and inform its sender. Returns False if a leader has already taken it."""
    try:
        entries = transport.results.lrange(_QUEUE, 0, -1)
        assert isinstance(entries, list)
        for entry in entries:
            command = _read(entry, 0)
            if command is not None and command.id == number:
                removed = transport.results.lrem(_QUEUE, 1, entry) == 1  # type: ignore[arg-type]
                if removed:
                    _answer(number, by)
                return removed
    except redis.RedisError as error:
        raise Refusal(503, _AWAY.format(error=type(error).__name__)) from error
    return False


def _answer(number: str, by: str) -> None:
    message = (
        f"The request was taken back in the console by {by or 'somebody'} before a leader took it: nothing was changed."
    )
    result = {"ok": False, "status": 409, "message": message, "retry": False, "passing": False}
    meta: dict[str, Any] = {
        "task_id": number,
        "status": "SUCCESS",
        "result": result,
        "traceback": None,
        "children": [],
    }
    transport.results.set(f"celery-task-meta-{number}", messages.encode(meta), ex=messages.ANSWER_SECONDS)


def _read(entry: Any, now: float) -> QueuedCommand | None:
    """Parse a message in kombu's format, at a time on Redis' clock. Returns None if it is not a command."""
    try:
        message = json.loads(entry)
        _, arguments, _ = messages.decode(base64.b64decode(message["body"]))
        command = arguments["command"]
        return QueuedCommand(
            str(message["headers"]["id"]),
            str(command["kind"]),
            str(command.get("connector") or ""),
            str(command.get("user") or ""),
            float(arguments["deadline"]) - now,
        )
    except (ValueError, KeyError, TypeError):
        return None


ROUND_MS = 15_000
MOTION_MS = 60_000
ANSWER_MS = 15_000
LOOKED_BACK_MS = 86_400_000
MOST = 200
_MOVING = (Health.STARTING, Health.STOPPING, Health.PAUSING, Health.RESTARTING)


@dataclass(frozen=True, slots=True)
class StuckOperation:
    """An operation that waits. why: what it waits for, if known; ways: address and label of each remedy; more: the
    section of the documentation about it.
    """

    what: str
    connector: str
    since_ms: int
    why: str
    ways: list[tuple[str, str]] = field(default_factory=list)
    at: str = ""
    more: Reference = TROUBLES


def find_stuck(who: Principal, now_ms: int | None = None) -> tuple[list[StuckOperation], str]:
    """Return the operations of visible connectors, oldest first, and why some could not be read, "" if all were."""
    now = epoch_ms() if now_ms is None else now_ms
    operations = [*_rounds(who, now), *_connectors(who, now), *_tasks(who, now), *_find_unanswered(who, now)]
    trouble = ""
    if who.may_everywhere(Verb.ADMIN):
        try:
            operations += _waiting(now)
        except Refusal as error:
            trouble = error.message
    return sorted(operations, key=lambda one: one.since_ms)[:MOST], trouble


def _path(name: str, rest: str) -> str:
    return f"/ui/connectors/{quote(name, safe='')}/{rest}"


def _rounds(who: Principal, now: int) -> Iterator[StuckOperation]:
    fencing = Connector.objects.filter(who.query(), known=True, fencing=True).values_list("name", flat=True)
    rows = GenerationRow.objects.filter(connector__in=fencing).order_by("connector", "generation")
    newest = {row.connector: row for row in rows}
    for name, row in newest.items():
        if row.committed_ms and now - row.committed_ms > ROUND_MS:
            why = row.message or {"pending": "no leader has started it: is there a leader?"}.get(row.stage, row.stage)
            ways = [(_path(name, "round"), "Try again now"), (_path(name, "fence"), "Fence again")]
            yield StuckOperation(
                f"Fencing round of generation {row.generation}", name, row.committed_ms, why, ways, more=FAILURES
            )


def _connectors(who: Principal, now: int) -> Iterator[StuckOperation]:
    moving = Connector.objects.filter(who.query(), known=True, fencing=False)
    late = moving.filter(Q(stale=True) | Q(health__in=_MOVING), since_ms__gt=0, since_ms__lt=now - MOTION_MS)
    for row in late.order_by("since_ms")[:MOST]:
        why = (
            "its tasks are not created yet: the plugin has not answered"
            if row.stale
            else "its tasks do not run yet: the connector's page says what they wait for"
        )
        ways = [(_path(row.name, "tasks"), "See its tasks")]
        yield StuckOperation(f"Connector is {row.health.lower()}", row.name, row.since_ms, row.unreadable or why, ways)


def _tasks(who: Principal, now: int) -> Iterator[StuckOperation]:
    running = Connector.objects.filter(who.query(), known=True, fencing=False).exclude(target="STOPPED")
    slots = count_slots()
    waits = Task.objects.filter(
        known=True, state__in=("UNASSIGNED", "RESTARTING"), connector__in=running.values("name")
    )
    for row in waits.filter(since_ms__gt=0, since_ms__lt=now - MOTION_MS).order_by("since_ms")[:MOST]:
        why = describe_wait(row, slots.waits)
        ways = [(_path(row.connector, "tasks"), "See its tasks")]
        more = TROUBLES if row.why in ("placed", "restarted") else SIZES
        yield StuckOperation(
            f"Task {row.number} is {row.state.lower()}", row.connector, row.since_ms, why, ways, more=more
        )


def _find_unanswered(who: Principal, now: int) -> Iterator[StuckOperation]:
    """Yield writes that were begun but not completed: they are in progress, or their web process died."""
    rows = AuditEntry.objects.filter(completed=False, time_ms__lt=now - ANSWER_MS, time_ms__gt=now - LOOKED_BACK_MS)
    if not who.may_everywhere(Verb.ADMIN):
        rows = rows.exclude(connector="").filter(who.query(Verb.VIEW_CONFIG, "connector"))
    for row in rows.order_by("time_ms")[:MOST]:
        dead = now - row.time_ms > (COMMAND_TIMEOUT + 30) * 1000
        why = (
            "its web process ended before the answer: the outcome is unknown, check it" if dead else "not answered yet"
        )
        yield StuckOperation(row.request, row.connector, row.time_ms, why, [(f"/ui/settings/audit/{row.pk}", "Entry")])


def _waiting(now: int) -> Iterator[StuckOperation]:
    for one in list_queued_commands():
        sent_ms = now - int((COMMAND_TIMEOUT - one.left_s) * 1000)
        waits = f"waits for {one.left_s:.0f} s more" if one.left_s > 0 else "no longer waits: a leader drops it"
        who = f" by {one.user}" if one.user else ""
        ways = [(f"/ui/waiting/{one.id}", "Cancel")]
        yield StuckOperation(
            f"Command {one.kind.replace('_', ' ')}{who} waits for a leader",
            one.connector,
            sent_ms,
            f"Its sender {waits}",
            ways,
        )


_ASKING: Final = ("End it", "Fence this id", "Try again now", "Fence again", "Cancel")
"""The texts of links that lead to confirmations."""


def age(ms: float) -> str:
    seconds = max(0.0, ms / 1000)
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"


def _at(name: str, rest: str) -> str:
    return f"/ui/connectors/{quote(name, safe='')}/{rest}"


def _ui(name: str) -> SafeString:
    return format_html('<a href="/ui/connectors/{}">{}</a>', quote(name, safe=""), name)


def _ways(who: Principal, name: str, pairs: Iterable[tuple[Verb, str, str]]) -> SafeString:
    """Return links to the actions that the user may take; a dash if there are none."""
    actions = [(address, word) for verb, address, word in pairs if who.may(verb, name)]
    return links(*actions, asking=_ASKING) if actions else format_html("{}", NOTHING)


@requires(GET=somewhere(Verb.VIEW))
@require_safe
def transactions(request: HttpRequest) -> HttpResponse:
    """List open transactions of all connectors, oldest first, as last reported by their tasks."""
    who, now = principal_of(request), time.time() * 1000
    rows = Task.objects.filter(who.query(field="connector"), known=True, open_since_ms__gt=0).order_by("open_since_ms")[
        :500
    ]
    table = Table(
        ("Connector", "Task", "Open for", "Records", "Producer", "Last report", "Acts"),
        [
            (
                _ui(row.connector), str(row.number), age(now - row.open_since_ms), f"{row.open_records:,}",
                f"{row.producer_id}, epoch {row.epoch}", f"{age(now - row.reported_ms)} ago",
                _ways(who, row.connector, (
                    (Verb.VIEW, _at(row.connector, "coordinators"), "Ask Kafka"),
                    (Verb.FENCE, _at(row.connector, f"transactions/{row.number}/fence"), "End it"),
                )),
            )
            for row in rows
        ],
        [f"{row.connector} {row.number}" for row in rows],
    )  # fmt: skip
    says = (
        "As the tasks last reported. A zombie's transaction is not in here: the connector's own page asks Kafka's "
        "coordinators, which know it."
    )
    empty = "No task has a transaction open."
    return render_live(request, "table", "Open transactions", CLUSTER, table=table, says=says, empty=empty)


def _waiting_partitions(one: dict[str, Any]) -> str:
    """Return the partitions that an open transaction blocks."""
    names = [f"{each['topic']}-{each['partition']}" for each in one["partitions"]]
    return ", ".join([*names[:10], *(["…"] if len(names) > 10 else [])]) if one["open"] else NOTHING


@requires(GET=on_connector(Verb.VIEW))
@require_safe
def of_connector(request: HttpRequest, name: str) -> HttpResponse:
    """List the transactional ids of one connector, queried from their coordinators now."""
    row = find_connector(name)
    if row is None:
        raise Http404(f"There is no connector {name}")
    who = principal_of(request)
    counts = GenerationRow.objects.filter(connector=name).values_list("tasks", flat=True)
    trouble, ids = "", []
    try:
        ids = dispatch.ask(
            DescribeTransactions(
                name, max([row.task_count, *counts]), row.settings, old_generations.find_unfenced_configs(row)
            )
        )
    except Refusal as error:
        trouble = error.message
    table = Table(
        ("Transactional id", "State", "Open for", "Producer", "Partitions that wait", "Acts"),
        [
            (
                one["id"], one["state"] or "not known", NOTHING if one["age_ms"] is None else age(one["age_ms"]),
                f"{one['producer_id']}, epoch {one['epoch']}",
                _waiting_partitions(one),
                _ways(who, name, ((Verb.FENCE, _at(name, f"transactions/{one['task']}/fence"), "Fence this id"),)),
            )
            for one in ids
        ],
        [one["id"] for one in ids],
    )  # fmt: skip
    says = "Queried from Kafka's transaction coordinators every ten seconds (KIP-664); ids of older generations, too."
    return render_live(request, "table", f"Transactions of {name}", CLOCK, table=table, says=says, trouble=trouble)


@requires(GET=somewhere(Verb.VIEW))
@require_safe
def stuck_page(request: HttpRequest) -> HttpResponse:
    """List what waits too long, oldest first; for htmx, as a part of Home, which is empty if nothing does."""
    now = time.time() * 1000
    operations, trouble = find_stuck(principal_of(request))
    table = Table(
        ("What", "Connector", "For", "Why", "What helps"),
        [
            (
                one.what,
                _ui(one.connector) if one.connector else NOTHING,
                age(now - one.since_ms),
                one.why,
                links(*one.ways, (one.more.address, one.more.title), asking=_ASKING),
            )
            for one in operations
        ],
        [f"{one.what} {one.connector} {one.since_ms}" for one in operations],
    )
    context = {"table": table, "trouble": trouble, "title": "Waits too long"}
    template = "console/parts/stuck.html" if is_fragment(request) else "console/stuck.html"
    return render(request, template, context)


@requires(GET=everywhere(Verb.ADMIN), POST=everywhere(Verb.ADMIN).writing())
@require_http_methods(["GET", "POST"])
def cancel_command(request: HttpRequest, number: str) -> HttpResponse:
    """Cancel a command that waits for a leader."""
    try:
        one = next((one for one in list_queued_commands() if one.id == number), None)
    except Refusal as error:
        raise Http404(error.message) from error
    if one is None and request.method != "POST":
        raise Http404("This command no longer waits: a leader has taken it, or it has expired")
    about = f"{one.kind.replace('_', ' ')} {one.connector}".strip() if one else "the command"
    says = ["It is removed from the queue before a leader takes it; its sender is told that nothing was changed."]
    sheet = ConfirmPage(f"Cancel: {about}", "Cancel the command", "/ui/stuck", says)

    def act(_values: dict[str, Any]) -> ActionResult:
        if not cancel(number, principal_of(request).name):
            raise ValueError("Too late: a leader has taken it, or it has expired. Check its outcome")
        return ActionResult("It is cancelled: nothing was changed.")

    return run(request, sheet, act)


urls = [
    path("connectors/<name:name>/coordinators", of_connector),
    path("transactions", transactions),
    path("stuck", stuck_page),
    path("waiting/<name:number>", cancel_command),
]
