"""The Snapshots tab: progress of the initial snapshot, and incremental snapshots on request."""

import re
from collections.abc import Callable
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.views.decorators.csrf import ensure_csrf_cookie
from django.views.decorators.http import require_http_methods, require_POST

from ringfence.access.authorise import on_connector, principal_of, requires
from ringfence.access.principal import Verb
from ringfence.api.v1.snapshots import find_initial_snapshot, find_progress, send
from ringfence.audit.trail import note
from ringfence.connectors.sdk.snapshot_signals import EXECUTE, PAUSE, RESUME, STOP
from ringfence.dispatch import Refusal
from ringfence.http.errors import ConnectError
from ringfence.projection.models import Connector, find_connector
from ringfence.projection.progress_reports import format_value
from ringfence.web.connector.header import tasks_of
from ringfence.web.connector.tab_page import (
    record_failure,
    render_confirmation,
    render_done,
    render_refused,
    tab,
)
from ringfence.web.state_badges import Badge, Severity
from ringfence.web.views import find, render_gone

MOST_TABLES: Final = 100
"""The most tables to show per snapshot; unfinished ones come first."""
_READING: Final = Badge("Reading", "loader", Severity.MOTION, "Its rows are being read.")
_PAUSED: Final = Badge("Paused", "circle-pause", Severity.REST, "It continues after the last committed row.")
_WAITING: Final = Badge("Waiting", "hourglass", Severity.REST, "The connector is not running.")
_COMPLETE: Final = Badge("Complete", "circle-check", Severity.OK, "Every row is in Kafka.")
_HINT: Final = "Its task carries it out between two transactions of the stream. The result is shown here."


@tab("snapshots", still=True, follows=True)
def snapshots(request: HttpRequest, row: Connector) -> dict[str, Any]:
    """Return the committed progress of both kinds of snapshots."""
    tasks = tasks_of(row)
    initial, incremental = find_initial_snapshot(row, tasks), find_progress(row, tasks)
    state = incremental.state
    return {
        "initial": initial,
        "initial_state": _badge(row, paused=False) if initial and not initial.finished else _COMPLETE,
        "initial_tables": [(one, re.escape(one.name)) for one in initial.tables[:MOST_TABLES]] if initial else [],
        "initial_left": _span((initial.measured if initial else {}).get("left")),
        "incremental": incremental,
        "incremental_state": _badge(row, paused=state.paused),
        "incremental_left": _span(incremental.measured.get("left")),
        "queue": [(one, re.escape(one.name)) for one in state.queue[:MOST_TABLES]],
        "most": MOST_TABLES,
    }


def _badge(row: Connector, *, paused: bool) -> Badge:
    return _PAUSED if paused else _READING if row.state == "RUNNING" else _WAITING


def _span(seconds: float | None) -> str:
    return "" if seconds is None else format_value(seconds, "seconds")


@requires(GET=on_connector(Verb.OFFSETS), POST=on_connector(Verb.OFFSETS).writing())
@require_http_methods(["GET", "HEAD", "POST"])
@ensure_csrf_cookie
def start(request: HttpRequest, name: str) -> HttpResponse:
    """Show the form for the tables on GET; start on POST. `tables`: one regular expression per line."""
    text = str((request.POST if request.method == "POST" else request.GET).get("tables", ""))
    patterns = [line.strip() for line in text.splitlines() if line.strip()]
    message = "Incremental snapshot requested."
    return _answer(request, name, EXECUTE, patterns, message, ("snapshots_start", {"tables": text}))


@requires(GET=on_connector(Verb.OFFSETS), POST=on_connector(Verb.OFFSETS).writing())
@require_http_methods(["GET", "HEAD", "POST"])
@ensure_csrf_cookie
def stop(request: HttpRequest, name: str) -> HttpResponse:
    """Confirm on GET; stop on POST. `table`: a regular expression of the tables to remove; without it, all."""
    table = str((request.POST if request.method == "POST" else request.GET).get("table", ""))
    context = {"table": table, "table_name": _unescape(table)}
    message = f"Removal of {_unescape(table)} requested." if table else "Stop of the incremental snapshot requested."
    return _answer(request, name, STOP, [table] if table else [], message, ("snapshots_stop", context))


def hold(kind: str, message: str) -> Callable[[HttpRequest, str], HttpResponse]:
    """Return the view that pauses, or resumes."""

    @requires(POST=on_connector(Verb.OFFSETS).writing())
    @require_POST
    def act(request: HttpRequest, name: str) -> HttpResponse:
        row = find(name)
        try:
            _send(request, row, kind, [])
        except (ConnectError, Refusal) as error:
            return render_refused(request, error)
        return render_done(request, row, message, "snapshots", hint=_HINT)

    return act


pause = hold(PAUSE, "Pause of the incremental snapshot requested.")
resume = hold(RESUME, "Resumption of the incremental snapshot requested.")


def _answer(
    request: HttpRequest, name: str, kind: str, tables: list[str], message: str, question: tuple[str, dict[str, Any]]
) -> HttpResponse:
    """Show the form, or carry out the request. question: the template of the form, and its context. A refusal shows the
    form again.
    """
    row = find_connector(name)
    if row is None:
        return render_gone(request, name)
    part, context = question
    if request.method != "POST":
        return render_confirmation(request, row, part, context)
    try:
        _send(request, row, kind, tables)
    except (ConnectError, Refusal) as error:
        return render_confirmation(
            request, row, part, {**context, "problem": error.message}, record_failure(request, error)
        )
    return render_done(request, row, message, "snapshots", hint=_HINT)


def _send(request: HttpRequest, row: Connector, kind: str, tables: list[str]) -> None:
    note(request, f"{kind} {', '.join(tables)}"[:500].strip())
    send(row, kind, tables, principal_of(request).name)


def _unescape(pattern: str) -> str:
    """Return the table's name from the expression that matches only that table."""
    return re.sub(r"\\(.)", r"\1", pattern)


urlpatterns = [
    path("", snapshots),
    path("/start", start),
    path("/pause", pause),
    path("/resume", resume),
    path("/stop", stop),
]
