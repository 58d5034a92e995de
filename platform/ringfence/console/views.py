"""Pages about open transactions of all connectors, and about what waits too long."""

import time
from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import quote

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import path
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.views.decorators.http import require_http_methods, require_safe

from ringfence import dispatch
from ringfence.access.authorise import principal_of
from ringfence.access.principal import Principal, Verb
from ringfence.access.routes import everywhere, on_connector, requires, somewhere
from ringfence.console.confirm_page import ActionResult, ConfirmPage, run
from ringfence.console.live_page import CLOCK, CLUSTER, render_live
from ringfence.console.stuck_operations import find_stuck
from ringfence.console.tables import NOTHING, Table, links
from ringfence.console.waiting_commands import cancel, list_queued_commands
from ringfence.dispatch import Refusal
from ringfence.history import old_generations
from ringfence.projection.models import GenerationRow, Task, find_connector
from ringfence.requests.questions import DescribeTransactions
from ringfence.web.views import is_fragment

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
