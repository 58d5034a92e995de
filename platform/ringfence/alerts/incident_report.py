"""What is known about an incident's cause when it begins, kept with it: its page and its messages say the same.

And what users do about incidents: acknowledge one, silence a connector, end a silence.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Self

from django.db.models import Q, QuerySet

from ringfence.access.principal import Principal, Verb, display_name
from ringfence.alerts.conditions import Finding, Kind, last_error
from ringfence.alerts.models import Incident, IncidentNote, Silence, now_ms
from ringfence.alerts.root_causes import cause_of
from ringfence.audit.models import AuditEntry, Outcome
from ringfence.audit.trail import describe_deed
from ringfence.connectors.sdk.names import describe_length
from ringfence.history.models import ConfigVersion
from ringfence.http.masking import Masker
from ringfence.projection.connector_notes import read_notes
from ringfence.projection.models import Connector, LogLine, Task

DAY_MS: Final = 86_400_000
_AROUND_MS: Final = 5 * 60_000
_WARNING: Final = 30
_MOST: Final = 10
_LONGEST_LINE: Final = 300

_REMEDIES: Final[Mapping[str, str]] = {
    Kind.RETRYING: "It goes on by itself as soon as the source answers. Nothing is lost. Check that the source is up, "
    "and that its worker can reach it.",
    Kind.NO_LEADER: "Start a worker: ringfence worker --config FILE. If one runs, its log says why it does not lead.",
    Kind.CLUSTER: "Start what does not answer. Its log says why it ended.",
    Kind.TOPIC_LOST: "Restore the topic: ringfence restore --help.",
    Kind.OPEN_TRANSACTION: "See which task holds it: ringfence transactions list. Restart that task, or end the "
    "transaction.",
    Kind.FENCING_FAILED: "See the round on the connector's page, under Exactly once. It is tried again by itself.",
    Kind.BAD_RECORDS: "Look at the records: ringfence dead-letters list. Correct the cause, and replay them.",
    Kind.STALLED: "If its source has news, read the log of its tasks, and restart them.",
    Kind.DATA_OLD: "Look at the source: is it up, and does it write? If so, the connector is behind: add tasks.",
    Kind.NOT_RUNNING: "See what its tasks wait for on its page.",
    Kind.TOPIC_REPLACED: "Proof shows what readers find now. Reset the source offsets to send the old records again.",
    Kind.FOREIGN_RECORD: "Find who else writes to the config topic, and take that permission away.",
}


@dataclass(frozen=True, slots=True)
class IncidentReport:
    """Without secrets, and without the value of a record, since messages leave the platform.

    cause: the original error; remedy: what helps; record: topic, partition, offset and stage of the record that could
    not be processed; changes: what people changed in the day before, newest first; log: warnings and errors around the
    beginning, newest first.
    """

    cause: str = ""
    remedy: str = ""
    record: Mapping[str, str] = field(default_factory=dict)
    owner: str = ""
    runbook: str = ""
    changes: Sequence[Mapping[str, Any]] = ()
    log: Sequence[Mapping[str, Any]] = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """The inverse of `dumps`."""
        return cls(**json.loads(text or "{}"))

    def dumps(self) -> str:
        return json.dumps(self.to_json(), ensure_ascii=False)

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return asdict(self)


def write_report(kind: str, finding: Finding, now: int) -> IncidentReport:
    """Collect what is known about the cause. now: in milliseconds, as all times."""
    remedy = _REMEDIES.get(kind, "")
    row = Connector.objects.filter(name=finding.connector, known=True).first() if finding.connector else None
    if row is None:
        return IncidentReport(finding.summary, remedy)
    masker, config = Masker([row.class_name]), row.settings
    notes, began_ms = read_notes(config), finding.began_ms or now
    cause, record = finding.summary, dict[str, str]()
    if kind == Kind.FAILED:
        task = _task_of(finding)
        config = {**config, **(task.settings if task is not None else {})}  # whose secrets are hidden as well
        trace = row.trace if task is None else task.trace or task.failed_trace
        if trace:
            root = cause_of(masker.scrub(trace, config))
            cause, remedy = root.headline or cause, root.hint
        failure = (task.record_failure or task.last_failed_record) if task is not None else None
        if failure is not None:
            record = {name: getattr(failure, name) for name in ("topic", "partition", "offset", "stage")}
            record = {name: masker.scrub(text, config) for name, text in record.items()}
    return IncidentReport(
        cause,
        remedy,
        record,
        notes.owner,
        notes.runbook,
        sorted(list_changes(row.name, began_ms - DAY_MS, began_ms), key=lambda one: -int(one["time_ms"]))[:_MOST],
        list_log(row, began_ms - _AROUND_MS, now),
    )


def list_log(row: Connector, from_ms: int, to_ms: int) -> list[dict[str, Any]]:
    """Return the newest warnings and errors between two times, as `time_ms`, `level` and the first line of `message`,
    without secrets.
    """
    rows = LogLine.objects.filter(
        connector=row.name, severity__gte=_WARNING, time_ms__gte=from_ms, time_ms__lte=to_ms
    ).order_by("-id")[:_MOST]
    if not rows:
        return []
    masker, config = Masker([row.class_name]), row.settings
    return [
        {"time_ms": line.time_ms, "level": line.level, "message": _one_line(masker.scrub(line.message, config))}
        for line in rows
    ]


def list_changes(connector: str, from_ms: int, to_ms: int) -> Iterator[dict[str, Any]]:
    """Yield what was changed about a connector between two times, as `time_ms` and `text`: versions of its
    configuration, and what people did with it. Settings are not named.
    """
    versions = ConfigVersion.objects.filter(connector=connector, time_ms__gte=from_ms, time_ms__lte=to_ms)
    for at_ms, number, user in versions.order_by("-number").values_list("time_ms", "number", "user")[:_MOST]:
        by = f", by {display_name(user)}" if user else ""
        yield {"time_ms": at_ms, "text": f"Configuration version {number}{by}"}
    entries = AuditEntry.objects.filter(
        connector=connector, outcome=Outcome.DONE, time_ms__gte=from_ms, time_ms__lte=to_ms
    ).exclude(action__in=("edit", "create"))
    for entry in entries.order_by("-time_ms")[:_MOST]:
        yield {"time_ms": entry.time_ms, "text": f"{describe_deed(entry)}, by {display_name(entry.user, entry.via)}"}


def _task_of(finding: Finding) -> Task | None:
    """Return the task that the finding is about; None if it is about the connector."""
    prefix = f"task {finding.connector}-"
    number = finding.subject.removeprefix(prefix)
    if not finding.subject.startswith(prefix) or not number.isdigit():
        return None
    return Task.objects.filter(connector=finding.connector, number=int(number), known=True).first()


def _one_line(text: str) -> str:
    """Return the first line; with a traceback, what comes before it and the error at its end."""
    first, _, rest = text.strip().partition("\n")
    if "Traceback" in first and rest:
        error = "" if rest.endswith("(cut)") else last_error(text)
        first = f"{first.partition('Traceback')[0]}{error}".removesuffix(": ")
    return first[:_LONGEST_LINE]


def incidents(who: Principal) -> QuerySet[Incident]:
    """Return the incidents of visible connectors, and those of the cluster for users who may see any connector."""
    if who.may_everywhere(Verb.VIEW):
        return Incident.objects.all()
    return Incident.objects.filter(Q(connector="") | who.query(Verb.VIEW, "connector"))


LONGEST_HOURS = 7 * 24


def in_force(now: int) -> QuerySet[Silence]:
    """Return the active silences."""
    return Silence.objects.filter(until_ms__gt=now, ended_ms=0)


def list_silenced(now: int) -> frozenset[str]:
    """Return the silenced connectors; "" stands for all connectors and the cluster."""
    return frozenset(in_force(now).values_list("connector", flat=True))


def covers(names: Collection[str], connector: str) -> bool:
    """Return whether messages about this connector ("": the cluster) are silenced."""
    return "" in names or connector in names


def filter_unsilenced(incidents: QuerySet[Incident], now: int) -> QuerySet[Incident]:
    """Return the open incidents that are neither acknowledged nor silenced, which the badge counts."""
    rows = incidents.filter(resolved_ms=0, acknowledged_ms=0)
    silenced = in_force(now)
    if silenced.filter(connector="").exists():
        return rows.none()
    return rows.exclude(connector__in=silenced.values("connector"))  # names as parameters would have a limit


_HOUR_MS = 3_600_000
_LONGEST_WHY = 1000
_LONGEST_NOTE = 4000
_MOST_NOTES = 200
"""Of one incident: its page shows all of them."""
_MOST_SILENCES = 50
"""Of one account, in force at once: all pages and each evaluation read them."""


def may_operate(who: Principal, connector: str) -> bool:
    """Return whether `who` may act on the connector's incidents ("": all connectors, and the cluster)."""
    return who.may(Verb.OPERATE, connector) if connector else who.may_everywhere(Verb.OPERATE)


def acknowledge(one: Incident, who: Principal) -> Mapping[str, object] | None:
    """Acknowledge an incident, so that the badge no longer counts it. Returns the data for the audit trail, None if
    another user was first: only the first acknowledgement counts.
    """
    if one.acknowledged_ms:
        return None
    one.acknowledged_ms, one.acknowledged_by = now_ms(), who.name
    one.save(update_fields=["acknowledged_ms", "acknowledged_by"])
    return {"incident": one.pk, "connector": one.connector, "acknowledged_by": one.acknowledged_by}


def add_note(one: Incident, text: object, who: Principal) -> IncidentNote:
    """Keep what somebody writes about the incident. Raises ValueError for an empty or long text, or for too many."""
    note = text.strip() if isinstance(text, str) else ""
    if not note or len(note) > _LONGEST_NOTE or "\x00" in note:
        raise ValueError(f"Write a note of up to {_LONGEST_NOTE:,} characters. Nothing was kept.")
    if one.notes.count() >= _MOST_NOTES:
        raise ValueError(f"The incident has {_MOST_NOTES} notes, and takes no more. Nothing was kept.")
    return IncidentNote.objects.create(incident=one, time_ms=now_ms(), user=who.name, text=note)


def silence(connector: str, hours: object, why: object, who: Principal) -> Silence:
    """Send nothing about the connector for that long. Raises ValueError for invalid values, and for too many."""
    text = str(hours)
    if isinstance(hours, bool) or not (text.isascii() and text.isdigit() and 0 < int(text[:9]) <= LONGEST_HOURS):
        raise ValueError(f"hours must be an integer from 1 to {LONGEST_HOURS}. Nothing was silenced.")
    reason = why.strip() if isinstance(why, str) else ""
    if not reason or len(reason) > _LONGEST_WHY or "\x00" in reason:
        raise ValueError("Give a reason of up to 1,000 characters. Nothing was silenced.")
    if too_long := describe_length(connector):
        raise ValueError(f"There is no connector of that name: {too_long}. Nothing was silenced.")
    now = now_ms()
    if in_force(now).filter(user=who.name).count() >= _MOST_SILENCES:
        raise ValueError(f"{_MOST_SILENCES} silences of yours are in force: end one. Nothing was silenced.")
    return Silence.objects.create(
        connector=connector, until_ms=now + int(text) * _HOUR_MS, created_ms=now, user=who.name, why=reason
    )


def audit_data(one: Silence) -> dict[str, object]:
    """Return the data for the audit trail."""
    return {"connector": one.connector, "until_ms": one.until_ms, "why": one.why}


def end(one: Silence) -> None:
    """End a silence: messages are sent again, including the first ones of incidents that are still open."""
    Silence.objects.filter(pk=one.pk, ended_ms=0).update(ended_ms=now_ms())
