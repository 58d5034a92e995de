"""What is known about an incident's cause when it begins, kept with it: its page and its messages say the same."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Self

from ringfence.access.principal import display_name
from ringfence.alerts.conditions import Finding, Kind, last_error
from ringfence.alerts.root_causes import cause_of
from ringfence.audit.deeds import describe_deed
from ringfence.audit.models import AuditEntry
from ringfence.audit.outcome import Outcome
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
