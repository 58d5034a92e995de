"""Dangerous actions on the leader and the workers, on connectors and on their transactions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from django.db.models import Count, Max, Q
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import path
from django.views.decorators.http import require_http_methods

from ringfence import dispatch
from ringfence.access.authorise import everywhere, on_connector, principal_of, requires
from ringfence.access.principal import Verb
from ringfence.connectors.plural_forms import write_count
from ringfence.console.page_parts import ActionResult, ConfirmPage, Impact, run
from ringfence.dispatch import Refusal
from ringfence.engine.leader import commands
from ringfence.engine.leader.commands import DrainWorker, HandOver
from ringfence.engine.questions import DescribeTransactions
from ringfence.history import old_generations
from ringfence.projection.models import (
    ClusterInfo,
    Connector,
    DrainedWorker,
    GenerationRow,
    Task,
    Worker,
    find_connector,
)

_both = require_http_methods(["GET", "POST"])
_ADMINISTERS = requires(GET=everywhere(Verb.ADMIN), POST=everywhere(Verb.ADMIN).writing())


@_ADMINISTERS
@_both
def hand_over(request: HttpRequest) -> HttpResponse:
    """Make the leader resign, so that the group elects another worker."""
    cluster = ClusterInfo.objects.exclude(leader="").first()
    if cluster is None:
        raise Http404("There is no leader, so there is nothing to hand over. Each worker's log gives the reason")
    others = Worker.objects.exclude(worker=cluster.leader).count()
    rounds = Connector.objects.filter(known=True, fencing=True).count()
    effects = [
        Impact("0", "tasks stopped: they need no leader, and stay where they are"),
        Impact(
            str(others),
            "other workers that can take over, as they described themselves",
            "the group elects one",
        ),
        Impact(str(rounds), "fencing rounds in progress; the next leader continues them"),
        Impact("some seconds", "in which commands (create, pause, stop …) wait, and nothing new is placed"),
    ]
    says = [
        f"{cluster.leader} finishes its writes, leaves the group, and joins it again when another worker leads. "
        "If there is no other live worker, it refuses and stays the leader.",
    ]
    sheet = ConfirmPage("Hand over the leadership", f"Have {cluster.leader} resign", "/ui/workers", says, effects)

    def act(values: dict[str, Any]) -> ActionResult:
        result = dispatch.command(HandOver(values["reason"]), user=principal_of(request).name)
        return ActionResult(f"{result.value['leader']} leads now.")

    return run(request, sheet, act)


def _worker(worker: str) -> Worker:
    row = Worker.objects.filter(worker=worker).first()
    if row is None:
        raise Http404(f"There is no worker {worker}")
    return row


def _drain() -> dict[str, str]:
    return dict(DrainedWorker.objects.values_list("worker", "incarnation"))


def room_elsewhere(row: Worker) -> tuple[int, int]:
    """Return the number of tasks on this worker, and of free slots on all other workers that take tasks."""
    on = dict(
        Task.objects.filter(known=True).exclude(state="FAILED").order_by().values_list("worker").annotate(Count("pk"))
    )
    drained_workers = _drain()
    others = Worker.objects.filter(~Q(worker=row.worker))
    free = sum(
        max(0, one.slots - on.get(one.worker, 0))
        for one in others
        if drained_workers.get(one.worker) != one.incarnation
    )
    return on.get(row.worker, 0), free


@_ADMINISTERS
@_both
def drain(request: HttpRequest, name: str) -> HttpResponse:
    """Drain a worker: it gets no new tasks, and its tasks move to other workers with free slots."""
    row = _worker(name)
    tasks, free = room_elsewhere(row)
    moving = min(tasks, free)
    effects = [
        Impact(
            str(moving),
            "tasks that move: each commits what it has, and starts on another worker",
            f"{write_count(free, 'free slot')} elsewhere",
        ),
        Impact(str(tasks - moving), "tasks that stay here, since no other worker has room for them"),
    ]
    says = [
        f"{name} takes no new tasks until it is undrained or restarted. The leadership is handed over separately.",
        "With one worker, or if all others are full, nothing moves: its tasks continue here; one that ends or fails "
        "restarts only when a slot is free. Then wait until it shows no task, and stop it.",
    ]
    sheet = ConfirmPage(f"Drain worker {name}", "Drain", "/ui/workers", says, effects)
    return run(request, sheet, lambda values: _set_drained(request, name, True, values["reason"]))


@_ADMINISTERS
@_both
def undrain(request: HttpRequest, name: str) -> HttpResponse:
    """Undrain a worker: it takes tasks again."""
    says = [f"{name} takes tasks again; the leader balances the load at once, so running tasks may move to it."]
    sheet = ConfirmPage(f"Undrain worker {name}", "Undrain", "/ui/workers", says)
    return run(request, sheet, lambda values: _set_drained(request, name, False, values["reason"]))


def _set_drained(request: HttpRequest, worker: str, drained: bool, reason: str) -> ActionResult:
    dispatch.command(DrainWorker(worker, drained, reason), user=principal_of(request).name)
    return ActionResult(f"{worker} takes no new tasks from now on." if drained else f"{worker} takes tasks again.")


_SECONDS = 8.0


@dataclass(frozen=True, slots=True)
class OpenNow:
    """Transactional ids (or tasks) with an open transaction, and the partitions in them."""

    ids: Sequence[str]
    partitions: Sequence[str]
    is_requested: bool
    warnings: Sequence[str] = ()


def open_now(row: Connector, ids: int) -> OpenNow:
    """Query a worker once, for a page that is about to abort the transactions."""
    try:
        transactions = dispatch.ask(
            DescribeTransactions(row.name, ids, row.settings, old_generations.find_unfenced_configs(row)), _SECONDS
        )
    except Refusal as error:
        tasks = Task.objects.filter(connector=row.name, known=True, open_since_ms__gt=0).order_by("number")
        task_names = [f"task {number}" for number in tasks.values_list("number", flat=True)]
        return OpenNow(task_names, (), False, [f"Kafka could not be queried for open transactions: {error.message}"])
    are_open = [each for each in transactions if each["open"]]
    partitions = {f"{one['topic']}-{one['partition']}" for each in are_open for one in each["partitions"]}
    return OpenNow([str(each["id"]) for each in are_open], sorted(partitions), True)


_FENCES = requires(GET=on_connector(Verb.FENCE), POST=on_connector(Verb.FENCE).writing())
_OPERATES = requires(GET=on_connector(Verb.OPERATE), POST=on_connector(Verb.OPERATE).writing())


def _find(name: str) -> Connector:
    row = find_connector(name)
    if row is None:
        raise Http404(f"There is no connector {name}")
    return row


def _user(request: HttpRequest) -> str:
    return principal_of(request).name


def _ids_of(row: Connector) -> int:
    """Return the number of transactional ids, including those of older generations, which a zombie could hold."""
    most = GenerationRow.objects.filter(connector=row.name).aggregate(Max("tasks"))["tasks__max"] or 0
    return max(int(most), row.task_count)


def _line(entry: Mapping[str, Any]) -> str:
    """Describe a fenced id, with the new producer id and epoch from its coordinator."""
    if entry["producer_id"] is None:
        return str(entry["id"])
    return f"{entry['id']}: producer {entry['producer_id']} has epoch {entry['epoch']} now"


def _open_effects(transactions: OpenNow) -> list[Impact]:
    how = (
        "queried from Kafka now"
        if transactions.is_requested
        else "as last reported by its tasks: Kafka could not be queried"
    )
    return [
        Impact(
            str(len(transactions.ids)), "open transactions aborted; what is in them is read again from the source", how
        ),
        Impact(str(len(transactions.partitions)), "partitions whose read_committed readers wait for them now", how),
    ]


@_FENCES
@_both
def fence(request: HttpRequest, name: str) -> HttpResponse:
    """Fence every transactional id of the connector, in a round."""
    row = _find(name)
    ids = _ids_of(row)
    transactions = open_now(row, ids)
    effects = [
        Impact(str(row.tasks_running), "running tasks stopped, and started again as a new generation"),
        Impact(str(ids), "transactional ids fenced: producers that hold one of them can commit nothing more"),
        *_open_effects(transactions),
    ]
    says = [
        f"Tasks of generation {row.generation} can no longer commit, their open transactions are aborted, and a new "
        "generation starts when the round is over. Records that were committed stay; none is lost or doubled.",
        "Use it where a task does not end by itself, or to be sure that no zombie is left.",
    ]
    if row.stale:
        says.append("Its tasks are being created again right now: the leader will refuse, and fence automatically.")
    back = f"/ui/connectors/{quote(name, safe='')}"
    sheet = ConfirmPage(
        f"Force a fence of {name}",
        "Fence all tasks",
        back,
        says,
        effects,
        connector=name,
        warnings=transactions.warnings,
    )

    def act(values: dict[str, Any]) -> ActionResult:
        result = dispatch.command(commands.FenceNow(name, values["reason"]), user=_user(request))
        generation = result.value["generation"]
        lines = [_line(each) for each in old_generations.list_fenced_ids(name, result.value)]
        hint = "Fenced:" if lines else "Its tab Generations lists what was fenced."
        return ActionResult(f"The round is over, and generation {generation} starts. {hint}", lines)

    return run(request, sheet, act)


@_FENCES
@_both
def fence_id(request: HttpRequest, name: str, task: int) -> HttpResponse:
    """Fence one transactional id, which ends its transaction."""
    row = _find(name)
    try:
        transactions = dispatch.ask(
            DescribeTransactions(
                name, max(_ids_of(row), task + 1), row.settings, old_generations.find_unfenced_configs(row)
            )
        )
    except Refusal as error:
        # Without Kafka's answer, neither the open transaction nor the id's name is known.
        raise Http404(f"The transactions of {name} could not be queried: {error.message}") from error
    # An id of an older generation may have an open transaction on another cluster.
    transaction = max((each for each in transactions if each["task"] == task), key=lambda each: bool(each["open"]))
    age = "unknown" if transaction["age_ms"] is None else f"{transaction['age_ms'] / 1000:,.1f} s"
    task_row = Task.objects.filter(connector=name, number=task, known=True).first()
    at_work = task_row is not None and task_row.state in ("RUNNING", "PAUSED")
    partitions = (
        [f"{each['topic']}-{each['partition']}" for each in transaction["partitions"]] if transaction["open"] else []
    )
    effects = [
        Impact("1" if at_work else "0", "running task stopped: it ends as fenced, and its next attempt is placed"),
        Impact(
            "1" if transaction["open"] else "0",
            "open transaction aborted" + (f", open for {age}" if transaction["open"] else ""),
        ),
        Impact(str(len(partitions)), "partitions freed for read_committed readers", ", ".join(partitions[:20])),
    ]
    says = [
        f"{transaction['id']} is {transaction['state'] or 'not known to its coordinator'}; "
        f"producer {transaction['producer_id']}, epoch {transaction['epoch']}.",
        "Ending a transaction manually fences its id: Kafka aborts what is open, and its holder, even a zombie, "
        "can commit nothing more. What was in it is read again from the source.",
    ]
    sheet = ConfirmPage(
        f"End the transaction of {transaction['id']}",
        "Fence this id",
        f"/ui/connectors/{quote(name, safe='')}/transactions",
        says,
        effects,
        connector=name,
    )

    def act(values: dict[str, Any]) -> ActionResult:
        result = dispatch.command(commands.FenceId(name, transaction["id"], values["reason"]), user=_user(request))
        return ActionResult(
            f"{transaction['id']} is fenced.",
            [_line(each) for each in old_generations.list_fenced_ids(name, result.value)],
        )

    return run(request, sheet, act)


@_OPERATES
@_both
def retry_round(request: HttpRequest, name: str) -> HttpResponse:
    """Retry a failed round now, without waiting for the end of its pause."""
    row = _find(name)
    newest = GenerationRow.objects.filter(connector=name).order_by("-generation").first()
    says = [
        "A fencing round is retried automatically, with growing pauses of up to 30 s, until it succeeds. This ends "
        "the current pause. A round cannot be cancelled: it keeps the old generation's tasks from committing.",
        f"Last message: {newest.message or newest.stage}" if newest else "It has reported nothing yet.",
    ]
    effects = [Impact(str(row.task_count), "tasks wait for this round")]
    sheet = ConfirmPage(f"Try the round of {name} again", "Try again now", "/ui/stuck", says, effects, connector=name)

    def act(values: dict[str, Any]) -> ActionResult:
        dispatch.command(commands.RetryRound(name, values["reason"]), user=_user(request))
        return ActionResult("The leader tries the round now, if one is due. The connector's timeline shows the result.")

    return run(request, sheet, act)


urls = [
    path("leader/hand-over", hand_over),
    path("workers/<name:name>/drain", drain),
    path("workers/<name:name>/undrain", undrain),
    path("connectors/<name:name>/fence", fence),
    path("connectors/<name:name>/transactions/<int:task>/fence", fence_id),
    path("connectors/<name:name>/round", retry_round),
]
