"""Deleting a connector: one page that shows what happens to its tasks, open transactions, offsets and topics."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_http_methods

from ringfence import dispatch
from ringfence.access.authorise import authorise, on_connector, principal_of, requires
from ringfence.access.principal import Verb
from ringfence.api.v1 import offsets
from ringfence.audit.trail import entry_of, note
from ringfence.dispatch import Refusal
from ringfence.engine.leader import commands
from ringfence.history.models import ConfigVersion, OffsetSnapshot
from ringfence.http.errors import ConnectError, bad_request
from ringfence.projection.models import ActiveTopic, Connector, SourceOffset, Task, find_connector
from ringfence.web.connector.offsets import LONGEST_REASON
from ringfence.web.connector.tab_page import record_failure, render_confirmation
from ringfence.web.connector.transaction_lanes import open_now
from ringfence.web.views import find, render_gone

MOST_LINES = 20
KEEP, DISCARD = "keep", "discard"


@requires(GET=on_connector(Verb.DELETE), POST=on_connector(Verb.DELETE).writing())
@require_http_methods(["GET", "HEAD", "POST"])
def delete(request: HttpRequest, name: str) -> HttpResponse:
    """Show the confirmation; then, with the name typed and a reason given, delete the connector. Discarding offsets
    requires a permission of its own, too.
    """
    row = find_connector(name)
    if row is None:
        return render_gone(request, name)
    if request.method != "POST":
        return _ask(request, row)
    offsets, reason = str(request.POST.get("offsets", KEEP)), str(request.POST.get("reason", "")).strip()
    try:
        if request.POST.get("confirm") != name:
            raise bad_request("The name does not match: nothing was changed.")
        if not reason or len(reason) > LONGEST_REASON:
            raise bad_request(f"A reason of up to {LONGEST_REASON} characters is needed: nothing was changed.")
        if offsets not in (KEEP, DISCARD):
            raise bad_request("Choose whether the offsets are kept or discarded: nothing was changed.")
        if offsets == DISCARD:
            authorise(request, Verb.OFFSETS, name)
        note(request, f"{reason} (offsets: {offsets})")
        snapshot = _carry_out(request, name, discard=offsets == DISCARD)
    except (ConnectError, Refusal) as error:
        status = record_failure(request, error, reason)
        row = find_connector(name)
        if row is None:
            return render_gone(request, name)
        return _ask(request, row, status, problem=error.message, reason=reason, chosen=offsets)
    entry = entry_of(request, name)
    context = {"discarded": offsets == DISCARD, "snapshot": snapshot, "entry": entry, "count": _offsets(name)}
    return render_confirmation(request, row, "deleted", context)


def _carry_out(request: HttpRequest, name: str, *, discard: bool) -> int | None:
    """Delete the connector. To discard its offsets: 1 stop it and wait for the fencing, 2 delete its offsets, 3 delete
    the connector.

    Returns the number of the offset snapshot that was taken. Raises `Refusal`; its message names the steps that were
    done.
    """
    user = principal_of(request).name
    snapshot = None
    if discard:
        if find(name).target != "STOPPED":
            dispatch.command(commands.Stop(name), user=user)
        try:
            snapshot = offsets.reset(name, user).snapshot
        except Refusal as error:
            text = f"It is stopped, and neither it nor its offsets are deleted: {error.message}"
            raise Refusal(error.status, text) from error
    try:
        dispatch.command(commands.Delete(name), user=user)
    except Refusal as error:
        done = "It is stopped and its offsets are deleted, but not the connector: " if discard else ""
        raise Refusal(error.status, done + error.message) from error
    return snapshot


def _offsets(name: str) -> int:
    return SourceOffset.objects.filter(connector=name).count()


def _ask(request: HttpRequest, row: Connector, status: int = 200, **more: Any) -> HttpResponse:
    tasks = list(Task.objects.filter(connector=row.name, known=True).order_by("number"))
    topics = ActiveTopic.objects.filter(connector=row.name).order_by("topic").values_list("topic", flat=True)
    open_ones = [task for task in tasks if open_now(task)]
    context = {
        "tasks": len(tasks),
        "open": open_ones[:MOST_LINES],
        "open_count": len(open_ones),
        "offset_count": _offsets(row.name),
        "snapshots": OffsetSnapshot.objects.filter(connector=row.name).count(),
        "versions": ConfigVersion.objects.filter(connector=row.name).count(),
        "topics": list(topics[:MOST_LINES]),
        "topic_count": topics.count(),
        "chosen": KEEP,
        **more,
    }
    return render_confirmation(request, row, "delete", context, status)
