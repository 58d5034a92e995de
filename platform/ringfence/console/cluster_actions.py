"""Dangerous actions on the leader and the workers."""

from typing import Any

from django.db.models import Count, Q
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import path
from django.views.decorators.http import require_http_methods

from ringfence import dispatch
from ringfence.access.authorise import everywhere, principal_of, requires
from ringfence.access.principal import Verb
from ringfence.connectors.plural_forms import write_count
from ringfence.console.page_parts import ActionResult, ConfirmPage, Impact, run
from ringfence.engine.leader.commands import DrainWorker, HandOver
from ringfence.projection.models import ClusterInfo, Connector, DrainedWorker, Task, Worker

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


urls = [
    path("leader/hand-over", hand_over),
    path("workers/<name:name>/drain", drain),
    path("workers/<name:name>/undrain", undrain),
]
