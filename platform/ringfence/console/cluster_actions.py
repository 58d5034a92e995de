"""Heavy acts on the leader and the workers."""

from typing import Any

from django.db.models import Count, Q
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import path
from django.views.decorators.http import require_http_methods

from ringfence import dispatch
from ringfence.access.authorise import principal_of
from ringfence.access.routes import everywhere, requires
from ringfence.access.verbs import Verb
from ringfence.connectors.plural_forms import write_count
from ringfence.console.confirm_page import ActionResult, ConfirmPage, Impact, run
from ringfence.projection.models import ClusterInfo, Connector, DrainedWorker, Task, Worker
from ringfence.requests.commands import DrainWorker, HandOver

_both = require_http_methods(["GET", "POST"])
_ADMINISTERS = requires(GET=everywhere(Verb.ADMIN), POST=everywhere(Verb.ADMIN).writing())


@_ADMINISTERS
@_both
def hand_over(request: HttpRequest) -> HttpResponse:
    """The leader resigns; the group lets another worker lead."""
    cluster = ClusterInfo.objects.exclude(leader="").first()
    if cluster is None:
        raise Http404("Nobody leads: there is nothing to hand over. Each worker's log says why")
    others = Worker.objects.exclude(worker=cluster.leader).count()
    rounds = Connector.objects.filter(known=True, fencing=True).count()
    effects = [
        Impact("0", "tasks stopped: they need no leader, and stay where they are"),
        Impact(
            str(others),
            "other workers that may take over, as they introduced themselves",
            "the group chooses, nobody else",
        ),
        Impact(str(rounds), "fencing rounds under way; the next leader continues them"),
        Impact("some seconds", "in which commands (create, pause, stop …) wait, and nothing new is placed"),
    ]
    says = [
        f"{cluster.leader} finishes its writes, leaves the group, and joins it again when another worker leads. "
        "If there is no other live worker, it refuses and stays the leader.",
    ]
    sheet = ConfirmPage(
        "Hand over the leadership", f"Have {cluster.leader} resign", "/console/workers/", says, effects, cluster.leader
    )

    def act(values: dict[str, Any]) -> ActionResult:
        result = dispatch.command(HandOver(values["reason"]), user=principal_of(request).name)
        return ActionResult(f"{result.value['leader']} leads now.")

    return run(request, sheet, act)


def _worker(worker: str) -> Worker:
    row = Worker.objects.filter(worker=worker).first()
    if row is None:
        raise Http404(f"No worker {worker} has introduced itself")
    return row


def _drain() -> dict[str, str]:
    return dict(DrainedWorker.objects.values_list("worker", "incarnation"))


def room_elsewhere(row: Worker) -> tuple[int, int]:
    """The tasks on this worker, and the free slots of all others that take tasks."""
    on = dict(
        Task.objects.filter(known=True).exclude(state="FAILED").order_by().values_list("worker").annotate(Count("pk"))
    )
    drained = _drain()
    others = Worker.objects.filter(~Q(worker=row.worker))
    free = sum(
        max(0, one.slots - on.get(one.worker, 0)) for one in others if drained.get(one.worker) != one.incarnation
    )
    return on.get(row.worker, 0), free


@_ADMINISTERS
@_both
def drain(request: HttpRequest, name: str) -> HttpResponse:
    """No new tasks for a worker, and those it has go elsewhere as far as there is room."""
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
        f"{name} takes no new tasks until it is undrained or started again. It may lead on: hand that over apart.",
        "With one worker, or where all others are full, nothing moves: its tasks go on here; one that ends or fails "
        "is not started again before there is room. Then wait until it shows no task, and stop it.",
    ]
    sheet = ConfirmPage(f"Drain worker {name}", "Drain", "/console/workers/", says, effects, name)
    return run(request, sheet, lambda values: _set_drained(request, name, True, values["reason"]))


@_ADMINISTERS
@_both
def undrain(request: HttpRequest, name: str) -> HttpResponse:
    """The worker takes tasks again."""
    says = [f"{name} takes tasks again; the leader evens the load out at once, so running tasks may move to it."]
    sheet = ConfirmPage(f"Undrain worker {name}", "Undrain", "/console/workers/", says)
    return run(request, sheet, lambda values: _set_drained(request, name, False, values["reason"]))


def _set_drained(request: HttpRequest, worker: str, drained: bool, reason: str) -> ActionResult:
    dispatch.command(DrainWorker(worker, drained, reason), user=principal_of(request).name)
    return ActionResult(f"{worker} takes no new tasks from now on." if drained else f"{worker} takes tasks again.")


urls = [
    path("leader/hand-over/", hand_over),
    path("workers/<name:name>/drain/", drain),
    path("workers/<name:name>/undrain/", undrain),
]
