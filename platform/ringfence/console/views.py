"""The console's read-only pages: overview, connectors, transactions, workers, stuck operations."""

import time
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote, urlencode

from django.core.paginator import Paginator
from django.db.models import Count
from django.http import Http404, HttpRequest, HttpResponse, HttpResponsePermanentRedirect
from django.urls import path
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.views.decorators.http import require_http_methods, require_safe

from ringfence import dispatch
from ringfence.access.authorise import principal_of
from ringfence.access.principal import Principal, display_name
from ringfence.access.routes import ANYONE, everywhere, on_connector, requires, somewhere
from ringfence.access.verbs import Verb
from ringfence.audit import listing
from ringfence.console.confirm_page import ActionResult, ConfirmPage, run
from ringfence.console.live_page import CLOCK, CLUSTER, render_live
from ringfence.console.stuck_operations import find_stuck
from ringfence.console.tables import NOTHING, Table, links, moment
from ringfence.console.waiting_commands import cancel, list_queued_commands
from ringfence.dispatch import Refusal
from ringfence.heartbeats.cluster_view import look
from ringfence.history import old_generations
from ringfence.projection.known_health import count_attention, known_health, leader_of
from ringfence.projection.models import ClusterInfo, Connector, DrainedWorker, GenerationRow, Task, Worker
from ringfence.requests.questions import DescribeTransactions
from ringfence.web.state_badges import look_of

_PAGE = 50


def age(ms: float) -> str:
    seconds = max(0.0, ms / 1000)
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"


def _at(name: str, rest: str) -> str:
    return f"/console/connectors/{quote(name, safe='')}/{rest}/"


def _ui(name: str) -> SafeString:
    return format_html('<a href="/ui/connectors/{}">{}</a>', quote(name, safe=""), name)


def _ways(who: Principal, name: str, pairs: Iterable[tuple[Verb, str, str]]) -> SafeString:
    """Return links to the actions that the user may take; a dash if there are none."""
    actions = [(address, word) for verb, address, word in pairs if who.may(verb, name)]
    return links(*actions) if actions else format_html("{}", NOTHING)


@requires(GET=ANYONE)
@require_safe
def bare(request: HttpRequest) -> HttpResponse:
    """Redirect `/console` to `/console/`."""
    return HttpResponsePermanentRedirect("/console/")


@requires(GET=ANYONE)
@require_safe
def overview(request: HttpRequest) -> HttpResponse:
    """Show numbers, each linked to the list behind it, and the newest entries of the audit trail."""
    who, now = principal_of(request), time.time() * 1000
    connector_rows = Connector.objects.filter(who.query(), known=True)
    cluster = ClusterInfo.objects.exclude(leader="").first()
    operations, trouble = find_stuck(who)
    open_tasks = Task.objects.filter(who.query(field="connector"), known=True, open_since_ms__gt=0)
    oldest = open_tasks.order_by("open_since_ms").values_list("open_since_ms", flat=True).first()
    waits = f"the oldest for {age(now - oldest)}" if oldest else "none"
    leader = leader_of(look.vitals(), cluster.leader if cluster else "")
    leads = f"{leader} leads" if leader else "no leader"
    tiles = [
        ("Connectors", connector_rows.count(), f"{count_attention(connector_rows, known_health())} need attention",
         "/console/connectors/"),
        ("Open transactions", open_tasks.count(), waits, "/console/transactions/"),
        ("Workers", Worker.objects.count(), leads, "/console/workers/"),
        ("Stuck operations", len(operations), "wait too long" if operations else "nothing waits", "/console/stuck/"),
    ]  # fmt: skip
    entries = list(listing.entries(who)[:10]) if who.may_somewhere(Verb.VIEW_CONFIG) else []
    rows = [
        (links((f"/console/audit/auditentry/{row.pk}/change/", moment(row.time_ms))), display_name(row.user),
         row.action,
         row.connector or NOTHING, row.outcome, row.message[:120])
        for row in entries
    ]  # fmt: skip
    table = Table(("Time", "Who", "Action", "Connector", "Outcome", "Message"), rows, [row.pk for row in entries])
    context: dict[str, Any] = {"tiles": tiles, "table": table, "trouble": trouble}
    context["may_administer"] = who.may_everywhere(Verb.ADMIN)
    return render_live(request, "overview", "Operations", CLUSTER, **context)


@requires(GET=somewhere(Verb.VIEW))
@require_safe
def connectors(request: HttpRequest) -> HttpResponse:
    """`?q=&page=`: list the connectors, worst first, with the possible actions."""
    who, search, health = principal_of(request), request.GET.get("q", "").strip(), known_health()
    rows = Connector.objects.filter(who.query(), known=True).order_by("-severity", "name")
    if search:
        rows = rows.filter(name__icontains=search)
    page = Paginator(rows, _PAGE).get_page(request.GET.get("page"))
    table = Table(
        ("Connector", "Health", "Tasks", "Generation", "Acts"),
        [
            (
                _ui(row.name), look_of(row, health).word, f"{row.tasks_running}/{row.task_count}", str(row.generation),
                _ways(who, row.name, (
                    (Verb.OPERATE, _at(row.name, "restart"), "Restart"),
                    (Verb.FENCE, _at(row.name, "fence"), "Force a fence"),
                    (Verb.VIEW, _at(row.name, "transactions"), "Transactions"),
                )),
            )
            for row in page
        ],
        [row.name for row in page],
    )  # fmt: skip
    query = urlencode({"q": search}) if search else ""
    more: dict[str, Any] = {"pages": page, "query": query, "search": search, "searches": True}
    return render_live(request, "table", "Connectors", CLUSTER, table=table, **more)


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
                    (Verb.VIEW, _at(row.connector, "transactions"), "Ask Kafka"),
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
    row = Connector.objects.filter(name=name, known=True).first()
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
def workers(request: HttpRequest) -> HttpResponse:
    """List the workers, with the leader and drained workers marked."""
    administers = principal_of(request).may_everywhere(Verb.ADMIN)
    cluster = ClusterInfo.objects.exclude(leader="").first()
    drained_workers = dict(DrainedWorker.objects.values_list("worker", "incarnation"))
    task_counts = dict(Task.objects.filter(known=True).order_by().values_list("worker").annotate(Count("pk")))
    rows = []
    worker_rows = list(Worker.objects.order_by("worker"))
    for row in worker_rows:
        leads = cluster is not None and (cluster.leader, cluster.incarnation) == (row.worker, row.incarnation)
        is_drained = drained_workers.get(row.worker) == row.incarnation
        at = f"/console/workers/{quote(row.worker, safe='')}"
        acts = [(f"{at}/undrain/", "Undrain") if is_drained else (f"{at}/drain/", "Drain")]
        acts += [("/console/leader/hand-over/", "Hand over the leadership")] if leads else []
        role = ", ".join(word for word, so in (("leader", leads), ("drained", is_drained)) if so) or "worker"
        rows.append(
            (row.worker, role, f"{task_counts.get(row.worker, 0)}/{row.slots}", row.mode, row.version,
             moment(row.since_ms), links(*acts) if administers else NOTHING)
        )  # fmt: skip
    table = Table(
        ("Worker", "Role", "Tasks/slots", "Exactly once", "Version", "Since", "Acts"),
        rows,
        [row.worker for row in worker_rows],
    )
    says = "As each described itself; one that died is listed until its id is used again."
    empty = "No workers have reported yet."
    return render_live(request, "table", "Workers", CLUSTER, table=table, says=says, empty=empty)


@requires(GET=somewhere(Verb.VIEW))
@require_safe
def stuck_page(request: HttpRequest) -> HttpResponse:
    """List stuck operations, oldest first."""
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
                links(*one.ways, (one.more.address, one.more.title)),
            )
            for one in operations
        ],
        [f"{one.what} {one.connector} {one.since_ms}" for one in operations],
    )
    says = (
        "Rounds and requests are listed after 15 s, tasks and connectors after a minute. Each continues automatically "
        "as soon as it has what it waits for: the leader retries its work."
    )
    more: dict[str, Any] = {"trouble": trouble, "empty": "Nothing is stuck."}
    return render_live(request, "table", "Stuck operations", CLUSTER, table=table, says=says, **more)


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
    sheet = ConfirmPage(f"Take back: {about}", "Take it back", "/console/stuck/", says)

    def act(_values: dict[str, Any]) -> ActionResult:
        if not cancel(number, principal_of(request).name):
            raise ValueError("Too late: a leader has taken it, or it has expired. Check its outcome")
        return ActionResult("It is taken back: nothing was changed.")

    return run(request, sheet, act)


urls = [
    path("", overview),
    path("connectors/", connectors),
    path("connectors/<name:name>/transactions/", of_connector),
    path("transactions/", transactions),
    path("workers/", workers),
    path("stuck/", stuck_page),
    path("waiting/<name:number>/", cancel_command),
]
