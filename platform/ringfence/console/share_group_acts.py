"""Dangerous actions on share groups: first the numbers of a dry run, then reason and name."""

import datetime as dt
from typing import Any
from urllib.parse import quote

from django import forms
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import path
from django.views.decorators.http import require_http_methods

from ringfence.access.authorise import requires, somewhere
from ringfence.access.principal import Verb
from ringfence.api import share_groups
from ringfence.api.share_groups import Foreseen, Readers
from ringfence.console.page_parts import ActionResult, ConfirmPage, Impact, ReasonForm, run
from ringfence.dispatch import Refusal
from ringfence.engine.leader.commands.offsets import AlterShareGroupOffsets, DeleteShareGroupOffsets, Move
from ringfence.fencing.share.group_moves import RequestedStart

_both = require_http_methods(["GET", "POST"])
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
    path("share-groups/<name:name>/alter", alter),
    path("share-groups/<name:name>/delete-offsets", forget),
    path("share-groups/<name:name>/delete", delete),
    path("share-groups/<name:name>/process", process),
    path("share-groups/<name:name>/settings", configure),
]
