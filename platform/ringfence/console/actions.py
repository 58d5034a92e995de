"""Dangerous actions: on the leader and the workers, on connectors and their transactions, and on share groups, which
first show the numbers of a dry run.
"""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from django import forms
from django.db.models import Count, Max, Q
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import path
from django.views.decorators.http import require_http_methods

from ringfence import dispatch
from ringfence.access.authorise import everywhere, on_connector, principal_of, requires, somewhere
from ringfence.access.principal import Verb
from ringfence.api import share_groups
from ringfence.api.share_groups import Foreseen, Readers
from ringfence.connectors.plural_forms import write_count
from ringfence.console.page_parts import ActionResult, ConfirmPage, Impact, ReasonForm, run
from ringfence.dispatch import Refusal
from ringfence.engine.leader import commands
from ringfence.engine.leader.commands import DrainWorker, HandOver
from ringfence.engine.leader.commands.offsets import AlterShareGroupOffsets, DeleteShareGroupOffsets, Move
from ringfence.engine.questions import DescribeTransactions
from ringfence.fencing.share.group_moves import RequestedStart
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
    sheet = ConfirmPage("Hand over the leadership", f"Hand over from {cluster.leader}", "/ui/workers", says, effects)

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


_CHANGES = requires(GET=somewhere(Verb.SHARE_GROUPS), POST=somewhere(Verb.SHARE_GROUPS).writing())
_MOST_PARTITIONS = 30


def _act_page(request: HttpRequest, name: str, act: Move, title: str, button: str, says: list[str]) -> HttpResponse:
    readers = _readers(request, name, offsets=True)
    try:
        foreseen = share_groups.foresee(readers, name, act)
    except Refusal as error:
        raise Http404(error.message) from error
    warnings = [foreseen.refusal] if foreseen.refusal else []
    for connector in foreseen.connectors:
        says.append(
            f"Connector {connector} reads this group: its ledger is moved, too, after a snapshot of its offsets."
        )
    sheet = ConfirmPage(
        title, button, _page(name), says, _effects(foreseen), name, _connector(readers, name), warnings=warnings
    )

    def carry_out(values: dict[str, Any]) -> ActionResult:
        done = share_groups.carry_out(request, readers, name, act, values["reason"])
        unsure = [f"{one.move.topic}-{one.move.partition}" for one in done.moves if not one.sure]
        text = f"Done: {done.again:,} offsets are processed again, {done.skipped:,} are skipped."
        lines = [f"The leader of {place} may deliver some records from before first." for place in unsure]
        return ActionResult(text, lines)

    return run(request, sheet, carry_out)


def _effects(foreseen: Foreseen) -> list[Impact]:
    effects = [
        Impact(f"{foreseen.again:,}", "offsets that are processed again"),
        Impact(f"{foreseen.skipped:,}", "offsets that are never processed"),
    ]
    for one in foreseen.moves[:_MOST_PARTITIONS]:
        start = "not begun" if one.move.start < 0 else f"{one.move.start:,}"
        to = "forgotten" if one.move.forgets else f"{one.move.to:,}"
        counts = f"{one.again:,} again, {one.skipped:,} skipped"
        effects.append(Impact(to, f"{one.move.topic}-{one.move.partition}, from {start}", counts))
    if len(foreseen.moves) > _MOST_PARTITIONS:
        effects.append(Impact(f"{len(foreseen.moves) - _MOST_PARTITIONS:,}", "more partitions"))
    return effects


def _readers(request: HttpRequest, name: str, *, offsets: bool) -> Readers:
    try:
        readers = share_groups.readers_now()
    except Refusal as error:
        raise Http404(error.message) from error
    readers.authorise_act(request, name, offsets=offsets)
    return readers


def _page(name: str) -> str:
    return f"/ui/share-groups/{quote(name, safe='')}"


def _connector(readers: Readers, name: str) -> str:
    """Return the connector that the audit entry is about."""
    return next(iter(readers.of(name)), "")


@_CHANGES
@_both
def alter(request: HttpRequest, name: str) -> HttpResponse:
    """`?topic=&to=earliest|latest|offset|time&at=`: move the group's start."""
    topic, to, at = (request.GET.get(key, "") for key in ("topic", "to", "at"))
    try:
        wish = parse_wish(to, at)
    except ValueError as error:
        raise Http404(str(error)) from error
    act: AlterShareGroupOffsets = {
        "kind": "alter",
        "to": wish.as_json(),
        "topics": [topic] if topic else None,
        "partitions": None,
    }
    where = f" in {topic}" if topic else ""
    place = to if wish.place else f"{to} {at}"
    says = [f"The group starts at {place}{where}. It must have no members in the meantime."]
    return _act_page(request, name, act, f"Move share group {name}", "Move it", says)


def parse_wish(to: str, at: str) -> RequestedStart:
    """Parse the form. Raises ValueError with the reason."""
    if to == "time":
        moment = dt.datetime.fromisoformat(at)
        aware_moment = moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
        return RequestedStart.parse({"time_ms": int(aware_moment.timestamp() * 1000)})
    if to == "offset":
        return RequestedStart.parse({"offset": int(at)})
    return RequestedStart.parse(to)


@_CHANGES
@_both
def forget(request: HttpRequest, name: str) -> HttpResponse:
    """`?topic=`: delete the group's offsets in a topic."""
    topic = request.GET.get("topic", "")
    if not topic:
        raise Http404("Offsets are forgotten by topic: ?topic=")
    says = [f"The group forgets {topic}, and its next reader starts there as its settings specify."]
    act: DeleteShareGroupOffsets = {"kind": "delete_offsets", "topics": [topic]}
    return _act_page(request, name, act, f"Delete the offsets of share group {name}", "Delete them", says)


@_CHANGES
@_both
def delete(request: HttpRequest, name: str) -> HttpResponse:
    """Delete the group."""
    says = ["The group and its offsets are deleted. It is created again as soon as a member joins."]
    return _act_page(request, name, {"kind": "delete"}, f"Delete share group {name}", "Delete it", says)


@_CHANGES
@_both
def process(request: HttpRequest, name: str) -> HttpResponse:
    """Have the connector's tasks process the records now that the group no longer delivers."""
    readers = _readers(request, name, offsets=False)
    try:
        backlog = share_groups.find_archived(readers, name)
    except Refusal as error:
        raise Http404(error.message) from error
    connector = _connector(readers, name)
    says = [
        f"Connector {connector or 'none'} has not done these offsets, and its share group no longer delivers them. Its "
        "sweep reads them when share.sweep.after.ms has passed; this starts it at once. A record that ends its process "
        "is handled as share.exhausted specifies."
    ]
    effects = [Impact(f"{backlog.waiting:,}", "offsets that are not done", "transaction markers among them")]
    for one in [one for one in backlog.partitions if one.offsets][:_MOST_PARTITIONS]:
        count = f"{one.archived:,} archived"
        effects.append(Impact(f"{one.offsets.size:,}", f"{one.topic}-{one.place.partition}", count))
    sheet = ConfirmPage(
        f"Process archived records of share group {name}",
        "Process them now",
        _page(name),
        says,
        effects,
        connector=connector,
        warnings=[backlog.refusal] if backlog.refusal else [],
    )

    def carry_out(values: dict[str, Any]) -> ActionResult:
        selection = share_groups.process_now(request, readers, name, values["reason"])
        return ActionResult(f"Requested: {selection.waiting:,} offsets. The group's page shows what is left.")

    return run(request, sheet, carry_out)


class SettingForm(ReasonForm):
    """One setting and its value."""

    setting = forms.CharField(max_length=200, label="Setting", help_text="share.record.lock.duration.ms, for example.")
    value = forms.CharField(max_length=200, label="Value", required=False, help_text="Empty: the broker's value.")
    field_order = ("setting", "value", "reason")


@_CHANGES
@_both
def configure(request: HttpRequest, name: str) -> HttpResponse:
    """Change a setting of the group."""
    readers = _readers(request, name, offsets=False)
    says = ["The brokers apply it at once. A connector sets its own group's settings when its tasks start."]
    sheet = ConfirmPage(
        f"Change a setting of share group {name}",
        "Change it",
        _page(name),
        says,
        connector=_connector(readers, name),
        form=SettingForm,
    )

    def carry_out(values: dict[str, Any]) -> ActionResult:
        setting, value = values["setting"].strip(), values["value"].strip()
        share_groups.configure(request, readers, name, {setting: value or None}, values["reason"])
        return ActionResult(f"{setting} is {value or 'as the broker has it'} now.")

    return run(request, sheet, carry_out)


urls = [
    path("leader/hand-over", hand_over),
    path("workers/<name:name>/drain", drain),
    path("workers/<name:name>/undrain", undrain),
    path("connectors/<name:name>/fence", fence),
    path("connectors/<name:name>/transactions/<int:task>/fence", fence_id),
    path("connectors/<name:name>/round", retry_round),
    path("share-groups/<name:name>/alter", alter),
    path("share-groups/<name:name>/delete-offsets", forget),
    path("share-groups/<name:name>/delete", delete),
    path("share-groups/<name:name>/process", process),
    path("share-groups/<name:name>/settings", configure),
]
