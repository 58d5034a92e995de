"""What happened in an incident, and who did what, as one list in order of time."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from ringfence.access.principal import Principal, Verb, display_name
from ringfence.alerts.deliveries import GIVEN_UP, SENT
from ringfence.alerts.incident_report import DAY_MS, list_changes
from ringfence.alerts.models import Delivery, Incident, Silence
from ringfence.http.masking import Masker
from ringfence.projection.models import Connector, Event
from ringfence.web.connector.event_folding import fold, headline

_BEFORE_MS: Final = 5 * 60_000
_MOST_EVENTS: Final = 200
_MOST_GROUPS: Final = 12


@dataclass(frozen=True, slots=True)
class Step:
    """One line of the list. tone: "" or a class of the stylesheet; note: what somebody wrote."""

    time_ms: int
    icon: str
    text: str
    tone: str = ""
    note: str = ""


def tell_story(one: Incident, row: Connector | None, who: Principal, now_ms: int) -> list[Step]:
    """Return the steps of an incident, newest first. What the account may not see is left out."""
    end_ms = one.resolved_ms or now_ms
    steps = [*_of_incident(one), *_of_notes(one), *_of_silences(one, end_ms)]
    if who.may_everywhere(Verb.VIEW):
        steps += _of_messages(Delivery.objects.filter(incident=one).order_by("pk"))
    if row is not None:
        steps += _of_events(row, one.began_ms - _BEFORE_MS, end_ms)
        if who.may(Verb.VIEW_CONFIG, row.name):
            changes = list_changes(row.name, one.began_ms - DAY_MS, end_ms)
            steps += [Step(int(each["time_ms"]), "pencil", str(each["text"])) for each in changes]
    return sorted(steps, key=lambda step: -step.time_ms)


def _of_incident(one: Incident) -> Iterator[Step]:
    yield Step(one.began_ms, "triangle-alert", "It began", "bad")
    yield Step(one.opened_ms, "bell", f"The rule “{one.rule_name}” reported it")
    if one.acknowledged_ms:
        yield Step(one.acknowledged_ms, "check", f"Acknowledged by {display_name(one.acknowledged_by)}")
    if one.resolved_ms:
        yield Step(one.resolved_ms, "circle-check", "It is over", "ok")


def _of_notes(one: Incident) -> Iterator[Step]:
    for note in one.notes.all():
        yield Step(note.time_ms, "file-text", f"Note by {display_name(note.user)}", note=note.text)


def _of_silences(one: Incident, end_ms: int) -> Iterator[Step]:
    rows = Silence.objects.filter(connector=one.connector, created_ms__gte=one.began_ms, created_ms__lte=end_ms)
    for silence in rows:
        yield Step(silence.created_ms, "bell-off", f"Silenced by {display_name(silence.user)}", note=silence.why)


_STATES: Final = {
    SENT: ("told", ""),
    GIVEN_UP: ("could not be told", "bad"),
}


def _of_messages(rows: Iterable[Delivery]) -> Iterator[Step]:
    for message in rows:
        word, tone = _STATES.get(message.state, ("is being told", ""))
        what = "that it is over" if message.what == "resolved" else "that it began"
        why = f": {message.error}" if message.error else ""
        at_ms = message.ended_ms or message.created_ms
        yield Step(at_ms, "send", f"{message.destination_name} {word} {what}{why}", tone)


def _of_events(row: Connector, from_ms: int, to_ms: int) -> Iterator[Step]:
    """Yield the connector's events without commands, which changes tell: who gave them stands there."""
    masker, config = Masker([row.class_name]), row.settings
    events = Event.objects.filter(connector=row.name, time_ms__gte=from_ms, time_ms__lte=to_ms)
    newest = events.exclude(type="command").order_by("-time_ms", "-id")[:_MOST_EVENTS]
    for group in fold(newest)[:_MOST_GROUPS]:
        text = masker.scrub(headline(group), config)
        yield Step(group[0].time_ms, "cpu" if group[0].type == "task" else "fence", text)
