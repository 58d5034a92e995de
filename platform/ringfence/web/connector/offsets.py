"""The Offsets tab: committed offsets, snapshots, and manual changes with a preview, a reason and an undo."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from django.core.paginator import Page, Paginator
from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.views.decorators.http import require_POST, require_safe

from ringfence.access.authorise import on_connector, principal_of, requires
from ringfence.access.principal import Verb
from ringfence.api import base, connector_reads, connector_writes
from ringfence.api.v1 import offsets as offsets_api
from ringfence.audit.trail import note
from ringfence.connectors.plural_forms import write_count
from ringfence.dispatch import Refusal
from ringfence.engine.leader.commands.offsets import OffsetEntry
from ringfence.fencing.leader.fence_targets import may_keep_own_offsets
from ringfence.history.models import OffsetSnapshot
from ringfence.http.errors import ConnectError, bad_request
from ringfence.projection.models import Connector, SourceOffset, find_connector, pack
from ringfence.web.connector.header import pretty
from ringfence.web.connector.tab_page import (
    record_failure,
    render_confirmation,
    render_done,
    render_refused,
    tab,
)
from ringfence.web.views import find, render_gone

PAGE_SIZE = 100
SNAPSHOTS = 20
SHOWN_CHANGES = 200
LONGEST_REASON = 1000

_TITLES = {
    "offsets": "Change these offsets?",
    "snapshot": "Put the offsets back to snapshot {}?",
    "reset": "Reset every offset?",
}
_VERBS = {"offsets": "Change", "snapshot": "Restore", "reset": "Reset"}
_SLOTS = ("ask", "preview")


@tab("offsets", still=True, follows=True)
def offsets(request: HttpRequest, row: Connector) -> dict[str, Any]:
    """`?page=`."""
    rows = SourceOffset.objects.filter(connector=row.name).order_by("partition")
    page: Page[SourceOffset] = Paginator(rows, PAGE_SIZE).get_page(request.GET.get("page", ""))
    snapshots = OffsetSnapshot.objects.filter(connector=row.name).order_by("-number")
    return {
        "page": page,
        "rows": [(pretty(each.partition), pretty(each.offset), each.updated_ms) for each in page],
        "own_offsets": may_keep_own_offsets(row.settings),
        "movable": offsets_api.movable(row),
        "snapshots": [(each, len(each.entries)) for each in snapshots[:SNAPSHOTS]],
        "snapshot_count": snapshots.count(),
    }


@requires(GET=on_connector(Verb.OFFSETS))
@require_safe
def editor(request: HttpRequest, name: str) -> HttpResponse:
    """Show all offsets as editable JSON. For a connector with its own offsets topic, as a worker reads it."""
    row = find_connector(name)
    if row is None:
        return render_gone(request, name)
    try:
        current = connector_reads.offsets(name)["offsets"]
    except Refusal as error:
        return render_confirmation(request, row, "offsets_editor", {"problem": error.message}, error.status)
    text = json.dumps({"offsets": current}, indent=2, ensure_ascii=False)
    return render_confirmation(request, row, "offsets_editor", {"text": text, "movable": offsets_api.movable(row)})


@requires(POST=on_connector(Verb.OFFSETS))
@require_POST
def preview(request: HttpRequest, name: str) -> HttpResponse:
    """Show what the edited JSON would change, and ask for confirmation. Nothing is changed."""
    row = find(name)
    try:
        current = connector_reads.offsets(name)["offsets"]
        changes = _real(connector_writes.offsets_of(_json(request, "json")), current)
        if not changes:
            raise bad_request("Nothing differs from the committed offsets.")
    except (ConnectError, Refusal) as error:
        status = error.status if isinstance(error, Refusal) else error.status_code
        return render_confirmation(request, row, "offsets_nothing", {"problem": error.message}, status)
    return _ask(request, row, "offsets", changes, current)


@requires(GET=on_connector(Verb.OFFSETS))
@require_safe
def reset(request: HttpRequest, name: str) -> HttpResponse:
    """Show the confirmation of a reset."""
    return _question(request, name, "reset", None)


@requires(GET=on_connector(Verb.OFFSETS))
@require_safe
def restore(request: HttpRequest, name: str, number: int) -> HttpResponse:
    """Show the confirmation before a snapshot is restored, which undoes every change since it was taken."""
    return _question(request, name, "snapshot", _snapshot(name, number))


@requires(POST=on_connector(Verb.OFFSETS).writing())
@require_POST
def snapshot(request: HttpRequest, name: str) -> HttpResponse:
    """Take a snapshot of the current offsets."""
    row = find(name)
    try:
        new_snapshot = offsets_api.take_snapshot(name, principal_of(request).name, "asked for")
    except (ConnectError, Refusal) as error:
        return render_refused(request, error)
    count = len(new_snapshot.entries)
    text = f"Snapshot {new_snapshot.number} is taken: {write_count(count, 'offset')}."
    return render_done(request, row, text, "offsets", hint="The last 100 are kept.")


@requires(POST=on_connector(Verb.OFFSETS).writing())
@require_POST
def move(request: HttpRequest, name: str) -> HttpResponse:
    """Carry out the previewed change: the name must be typed, a reason given, and the offsets unchanged since the
    preview.
    """
    row = find(name)
    kind, reason = str(request.POST.get("kind", "")), str(request.POST.get("reason", "")).strip()
    target = _snapshot(name, int(number)) if (number := str(request.POST.get("snapshot", ""))).isdigit() else None
    changes: list[OffsetEntry] = []
    current: list[dict[str, Any]] = []
    try:
        current = connector_reads.offsets(name)["offsets"]
        changes = _changes(request, kind, target, current)
        if request.POST.get("confirm") != name:
            raise bad_request("The name does not match: nothing was changed.")
        if not reason or len(reason) > LONGEST_REASON:
            raise bad_request(f"A reason of up to {LONGEST_REASON} characters is needed: nothing was changed.")
        if request.POST.get("expected") != _digest(current):
            raise Refusal(
                409,
                "The offsets have moved: nothing was changed. Below is what the change would do now.",
            )
        if not offsets_api.movable(row):
            raise Refusal(409, "The connector must be stopped, and its old tasks fenced, before its offsets change.")
        note(request, reason)
        result, text, hint = _carry_out(request, row, kind, target, changes)
    except (ConnectError, Refusal) as error:
        status = record_failure(request, error, reason)
        if not changes:
            return render_confirmation(request, row, "offsets_nothing", {"problem": error.message}, status)
        return _ask(request, row, kind, changes, current, target, status, problem=error.message, reason=reason)
    undo = f"/ui/connectors/{row.path}/offsets/snapshots/{result.snapshot}" if result.snapshot else ""
    suffix = " Its plugin has checked them." if result.checked else ""
    return render_done(request, row, text + suffix, "offsets", hint=hint, undo=undo)


def _carry_out(
    request: HttpRequest, row: Connector, kind: str, target: OffsetSnapshot | None, changes: Sequence[OffsetEntry]
) -> tuple[offsets_api.OffsetMove, str, str]:
    """Carry out the change. Returns the result, a message, and the next step."""
    user = principal_of(request).name
    if kind == "reset":
        return offsets_api.reset(row.name, user), "Offsets reset.", "Resume to start from the beginning."
    if target is not None:
        result, _ = offsets_api.restore(row.name, target, user)
        text = f"The offsets are those of snapshot {target.number} again."
    else:
        result = offsets_api.alter(row.name, changes, user)
        text = f"{write_count(len(changes), 'offset')} changed."
    return result, text, "Resume to continue from there."


def _question(request: HttpRequest, name: str, kind: str, target: OffsetSnapshot | None) -> HttpResponse:
    row = find_connector(name)
    if row is None or (kind == "snapshot" and target is None):
        return render_gone(request, name)
    try:
        current = connector_reads.offsets(name)["offsets"]
    except Refusal as error:
        return render_confirmation(request, row, "offsets_nothing", {"problem": error.message}, error.status)
    changes = offsets_api.changes_to(target.entries if target else [], current)
    if not changes:
        text = "The offsets are those of the snapshot already." if target else "No offset is committed yet."
        return render_confirmation(request, row, "offsets_nothing", {"nothing": text})
    return _ask(request, row, kind, changes, current, target)


def _ask(
    request: HttpRequest,
    row: Connector,
    kind: str,
    changes: Sequence[Mapping[str, Any]],
    current: Sequence[Mapping[str, Any]],
    target: OffsetSnapshot | None = None,
    status: int = 200,
    **more: Any,
) -> HttpResponse:
    slot = str(request.POST.get("slot", "ask"))
    context = {
        "kind": kind,
        "title": _TITLES[kind].format(target.number if target else ""),
        "verb": _VERBS[kind],
        "wanted": target,
        "changes": json.dumps(list(changes)) if kind == "offsets" else "",
        "expected": _digest(current),
        "rows": [_row(each) for each in offsets_api.preview(changes, current)[:SHOWN_CHANGES]],
        "count": len(changes),
        "gone": sum(each["offset"] is None for each in changes),
        "total": len(current),
        "movable": offsets_api.movable(row),
        "slot": slot if slot in _SLOTS else "ask",
        **more,
    }
    return render_confirmation(request, row, "offsets_confirm", context, status)


def _row(entry: Mapping[str, Any]) -> tuple[str, str, str]:
    before, after = (pretty(pack(entry[key])) if entry[key] is not None else "" for key in ("before", "after"))
    return pretty(pack(entry["partition"])), before, after


def _changes(
    request: HttpRequest, kind: str, target: OffsetSnapshot | None, current: Sequence[Mapping[str, Any]]
) -> list[OffsetEntry]:
    """Return the requested changes against the currently committed offsets. Raises `ConnectError`."""
    match kind:
        case "offsets":
            return _real(connector_writes.offsets_of({"offsets": _json(request, "changes")}), current)
        case "reset":
            return offsets_api.changes_to([], current)
        case "snapshot" if target is not None:
            return offsets_api.changes_to(target.entries, current)
        case _:
            raise bad_request("The request is incomplete: it needs offsets, reset, or the number of a kept snapshot.")


def _real(entries: Sequence[Mapping[str, Any]], current: Sequence[Mapping[str, Any]]) -> list[OffsetEntry]:
    """Return the entries that differ from the committed offsets."""
    rows = offsets_api.preview(entries, current)
    return [{"partition": each["partition"], "offset": each["after"]} for each in rows if each["changes"]]


def _json(request: HttpRequest, field: str) -> object:
    return base.read(str(request.POST.get(field, "")).encode("utf-8", "replace"))


def _digest(entries: Sequence[Mapping[str, Any]]) -> str:
    """Return a digest of offsets that does not depend on their order."""
    texts = sorted(pack([each["partition"], each["offset"]]) for each in entries)
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:32]


def _snapshot(name: str, number: int) -> OffsetSnapshot | None:
    return OffsetSnapshot.objects.filter(connector=name, number=min(number, 2**31 - 1)).first()


urlpatterns = [
    path("", offsets),
    path("/edit", editor),
    path("/preview", preview),
    path("/reset", reset),
    path("/move", move),
    path("/snapshots", snapshot),
    path("/snapshots/<int:number>", restore),
]
