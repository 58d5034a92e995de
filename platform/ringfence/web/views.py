"""The read-only pages. One URL serves the page and, for htmx, the fragment of it."""

from collections.abc import Callable
from functools import wraps
from typing import Any
from urllib.parse import quote

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.csrf import ensure_csrf_cookie
from django.views.decorators.http import require_safe

from ringfence.access.authorise import principal_of, requires, somewhere
from ringfence.access.principal import Verb
from ringfence.fencing.modes import lagging
from ringfence.fencing.topics.status import Trust
from ringfence.heartbeats.cluster_view import look
from ringfence.history.models import ConfigVersion
from ringfence.projection.health import leader_of
from ringfence.projection.models import ClusterInfo, Connector, DrainedWorker, Suspicion, Task, Worker, find_connector

View = Callable[..., HttpResponse]

KEPT_SHOWN = 20
"""The most versions that the page of a deleted connector offers."""


def find(name: str) -> Connector:
    """Return the connector. Raises Http404 if there is none."""
    row = find_connector(name)
    if row is None:
        raise Http404(f"There is no connector {name}")
    return row


def is_fragment(request: HttpRequest) -> bool:
    return request.headers.get("HX-Request") == "true" and request.headers.get("HX-History-Restore-Request") != "true"


def with_token(view: View) -> View:
    """Set the CSRF cookie on a page. A fragment does not need it: its page already has one."""
    page = ensure_csrf_cookie(view)

    @wraps(view)
    def either(request: HttpRequest, *arguments: Any, **options: Any) -> HttpResponse:
        return (view if is_fragment(request) else page)(request, *arguments, **options)

    return either


def render_gone(request: HttpRequest, name: str) -> HttpResponse:
    """Show the page or fragment for a connector that does not exist (any more)."""
    template = "ringfence/parts/gone.html" if is_fragment(request) else "ringfence/gone.html"
    who = principal_of(request)
    versions: list[ConfigVersion] = []
    there = Connector.objects.filter(name=name, known=True).exists()
    if not there and who.may(Verb.EDIT, name) and who.may(Verb.VIEW_CONFIG, name):
        versions = list(ConfigVersion.objects.filter(connector=name).order_by("-number")[:KEPT_SHOWN])
    context: dict[str, Any] = {"name": name, "path": quote(name, safe=""), "kept": versions}
    return render(request, template, context, status=200 if is_fragment(request) else 404)


@requires(GET=somewhere(Verb.VIEW))
@require_safe
def workers(request: HttpRequest) -> HttpResponse:
    """Show the members of the group."""
    task_counts: dict[str, int] = {}
    for worker in Task.objects.filter(known=True, state="RUNNING").values_list("worker", flat=True):
        task_counts[worker] = task_counts.get(worker, 0) + 1
    cluster = ClusterInfo.objects.first()
    vitals = look.vitals()
    silent = {incarnation for _, incarnation in vitals.silent}
    rows = [(worker, task_counts.get(worker.worker, 0)) for worker in Worker.objects.order_by("worker")]
    laggards = lagging((worker.worker, worker.mode) for worker, _ in rows)
    drained_workers = dict(DrainedWorker.objects.values_list("worker", "incarnation"))
    resting = [row.worker for row, _ in rows if drained_workers.get(row.worker) == row.incarnation]
    template = "ringfence/parts/workers.html" if is_fragment(request) else "ringfence/workers.html"
    context: dict[str, Any] = {"workers": rows, "cluster": cluster, "mixed": laggards, "drained": resting}
    trust = dict(Suspicion.objects.values_list("incarnation", "trust"))
    for level in (Trust.SUSPECTED, Trust.CALMING):
        context[level] = [incarnation for incarnation, value in trust.items() if value == level]
    context |= {"silent": silent, "leader": leader_of(vitals, cluster.leader if cluster else "")}
    context["may_administer"] = principal_of(request).may_everywhere(Verb.ADMIN)
    return render(request, template, {**context, "section": "workers"})
