"""The evaluation of rules, periodically, by one worker at a time. The database stores whose turn it is,
and the incidents.

A failure is an episode, which spans automatic restarts until records flow again or the connector is at rest. After each
automatic restart, a failed task runs for some seconds until it reaches the same record again. That must not count as
resolved, and a rule's "for 60 s" must not start again with the newest failure.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Final

from django.db import Error as DatabaseError
from django.db import close_old_connections, connection, transaction

from ringfence.alerts import deliveries, incident_report
from ringfence.alerts.conditions import (
    Changes,
    Finding,
    Kind,
    MessageKind,
    RuleCondition,
    changes,
    evaluate_rules,
    last_error,
)
from ringfence.alerts.incident_report import write_report
from ringfence.alerts.models import (
    RECENT_MS,
    Delivery,
    EpisodeRow,
    Incident,
    Rule,
    Silence,
    Turn,
    list_foreign_records,
    now_ms,
    prune_foreign_records,
)
from ringfence.alerts.senders import incident_message
from ringfence.alerts.snapshot import (
    ClusterProblem,
    ClusterSnapshot,
    ConnectorSnapshot,
    Episode,
    OverLimit,
    ReplacedTopic,
    TaskSnapshot,
)
from ringfence.error_class import drop_numbers
from ringfence.fencing.topics.status import KAFKA
from ringfence.heartbeats.cluster_view import look
from ringfence.http.masking import Masker
from ringfence.lock_waits import give_way
from ringfence.projection import cluster_topics
from ringfence.projection.health import Health, KnownHealth, known_health, reason_with_time
from ringfence.projection.models import ActiveTopic, Connector, GenerationRow, Task
from ringfence.projection.progress_reports import metrics_of
from ringfence.projection.stalls import QUIET_MS

STABLE_MS: Final = 600_000
"""After running for this long without a failure, a subject has recovered, whatever its source does."""


@dataclass(frozen=True, slots=True)
class _Subject:
    """A connector or task in an episode."""

    name: str
    connector: str
    failed: bool
    since_ms: int
    recovered_ms: int
    """When it last did its work, 0 if it is not doing so now."""
    summary: str
    answered_ms: int = 0
    """When its source last answered."""


def follow(known_episodes: Mapping[str, Episode], snapshot: ClusterSnapshot) -> dict[str, Episode]:
    """Return the updated episodes, by subject. An episode ends when its subject is removed or intentionally at rest."""
    episodes: dict[str, Episode] = {}
    for subject in _subjects(snapshot):
        before = known_episodes.get(subject.name)
        if subject.failed:
            episodes[subject.name] = _fail(before, subject)
        elif before is not None and not _is_over(before, subject, snapshot.now_ms):
            episodes[subject.name] = before
    return episodes


def _fail(before: Episode | None, subject: _Subject) -> Episode:
    if before is None:
        return Episode(subject.name, subject.connector, subject.since_ms, subject.since_ms, 1, subject.summary)
    if subject.since_ms <= before.failed_ms:
        return before
    return replace(before, failed_ms=subject.since_ms, failures=before.failures + 1, summary=subject.summary)


def _is_over(before: Episode, subject: _Subject, now_ms: int) -> bool:
    if subject.recovered_ms <= 0:
        return False
    began_ms = max(subject.since_ms, before.failed_ms)
    return (
        subject.recovered_ms > before.failed_ms
        or subject.answered_ms - began_ms >= QUIET_MS
        or now_ms - began_ms >= STABLE_MS
    )


def _subjects(snapshot: ClusterSnapshot) -> Iterator[_Subject]:
    """Yield the connectors and tasks that should run."""
    names = {one.name for one in snapshot.connectors if one.target == "RUNNING"}
    tasks = [task for task in snapshot.tasks if task.connector in names]
    flowing: dict[str, int] = {}
    answered: dict[str, int] = {}
    for task in tasks:
        flowing[task.connector] = max(flowing.get(task.connector, 0), _recovered_ms(task))
        answered[task.connector] = max(answered.get(task.connector, 0), _answered_ms(task))
    for connector in snapshot.connectors:
        if connector.name in names:
            yield _of_connector(connector, flowing.get(connector.name, 0), answered.get(connector.name, 0))
    yield from map(_of_task, tasks)


def _recovered_ms(task: TaskSnapshot) -> int:
    return max(task.committed_ms, 1) if task.state == "RUNNING" else 0


def _answered_ms(task: TaskSnapshot) -> int:
    return task.answered_ms if task.state == "RUNNING" and not task.retrying_ms else 0


def _of_connector(one: ConnectorSnapshot, flowing_ms: int, answered_ms: int) -> _Subject:
    summary = f"Connector {one.name} has failed. {last_error(one.message)}"
    recovered_ms = flowing_ms if one.state == "RUNNING" else 0
    return _Subject(
        f"connector {one.name}", one.name, one.state == "FAILED", one.since_ms, recovered_ms, summary, answered_ms
    )


def _of_task(one: TaskSnapshot) -> _Subject:
    summary = f"Task {one.number} of {one.connector} has failed. {last_error(one.trace)}"
    name = f"task {one.connector}-{one.number}"
    return _Subject(
        name, one.connector, one.state == "FAILED", one.since_ms, _recovered_ms(one), summary, _answered_ms(one)
    )


log = logging.getLogger(__name__)

EVERY_SECONDS = 5.0
TURN_MS = 20_000
KEPT_MS = 30 * 24 * 3600 * 1000
_PRUNE_MS = 300 * 1000
_HELD_SECONDS = 0.02
"""After that, a transaction takes up no other incident."""
_EPISODES_AT_ONCE = 50
_EPISODE_FIELDS = ("subject", "connector", "began_ms", "failed_ms", "failures", "summary")

Hand = Callable[[int], None]
Leads = Callable[[], bool | None]


def take_turn(holder: str, now: int) -> bool:
    """Return whether this process evaluates now: it was the last to do so, or the last one has been
    silent for a while.
    """
    if Turn.objects.filter(pk=1, holder=holder).update(until_ms=now + TURN_MS):
        return True
    if Turn.objects.filter(pk=1, until_ms__lt=now).update(holder=holder, until_ms=now + TURN_MS):
        return True
    _, created = Turn.objects.get_or_create(pk=1, defaults={"holder": holder, "until_ms": now + TURN_MS})
    return created


def idle() -> bool:
    """Return whether there is nothing to evaluate, close or send."""
    return not (
        Rule.objects.filter(enabled=True).exists()
        or Incident.objects.filter(resolved_ms=0).exists()
        or Delivery.objects.filter(state__in=(deliveries.WAITING, deliveries.UNDER_WAY)).exists()
    )


def read_snapshot(
    kinds: Iterable[Kind], now: int, leaderless_ms: int, problems: tuple[ClusterProblem, ...] = ()
) -> ClusterSnapshot:
    """Read the snapshot for the rules: four queries for any number of connectors. Secrets are masked."""
    kind_set = frozenset(kinds)
    of_cluster = {Kind.NO_LEADER, Kind.TOPIC_LOST, Kind.FOREIGN_RECORD, Kind.CLUSTER, Kind.TOPIC_REPLACED}
    rows = list(Connector.objects.filter(known=True)) if kind_set - of_cluster else []
    masker = Masker({row.class_name for row in rows if row.trace or row.fencing or row.health == Health.RETRYING})
    failing: dict[str, GenerationRow] = {}
    if Kind.FENCING_FAILED in kind_set:
        fencing = [row.name for row in rows if row.fencing]
        newest = {
            one.connector: one for one in GenerationRow.objects.filter(connector__in=fencing).order_by("generation")
        }
        failing = {name: one for name, one in newest.items() if one.stage == "failed"}
    health = known_health()
    connectors = []
    for row in rows:
        failed = failing.get(row.name)
        text = failed.message if failed is not None else row.trace or row.unreadable
        message = masker.scrub(text, row.settings) if text else ""
        since = (failed.started_ms or failed.committed_ms) if failed is not None else 0
        state = "FAILED" if row.unreadable else row.state
        bad = row.recent_skipped, row.recent_dead_letters, row.bad_since_ms
        connectors.append(
            ConnectorSnapshot(
                *(row.name, state, row.target, row.since_ms, since, message, row.stalled, *bad),
                **_not_running(row, health),
            )
        )
    settings: dict[str, dict[str, str]] = {}
    by_name = {row.name: row for row in rows}
    tasks = []
    if kind_set & {Kind.FAILED, Kind.RETRYING, Kind.STALLED, Kind.OPEN_TRANSACTION, Kind.DATA_OLD}:
        for task in Task.objects.filter(known=True, connector__in=by_name).order_by("connector", "number"):
            retry = task.poll_retry
            trace, refusal = task.trace, "" if retry is None else retry.cause
            if trace or refusal:
                name = task.connector
                settings[name] = settings.get(name) or by_name[name].settings  # decrypted only if needed
                secrets = {**settings[name], **task.settings}
                trace, refusal = masker.scrub(trace, secrets), drop_numbers(masker.scrub(refusal, secrets))
            numbers = task.connector, task.number, task.state, task.since_ms
            live = task.live_generation == task.generation and task.live_attempt == task.attempt
            polled_ms, open_ms, committed_ms = (
                (task.last_poll_ms, task.open_since_ms, task.last_commit_ms) if live else (0, 0, 0)
            )
            tasks.append(
                TaskSnapshot(
                    *(*numbers, polled_ms, open_ms, trace, committed_ms, 0 if retry is None else retry.since_ms),
                    refusal,
                    retry is not None and retry.by == KAFKA,
                    task.last_answer_ms if live else 0,
                    task.data_as_of_ms,
                )
            )
    lost = cluster_topics.find_lost() if Kind.TOPIC_LOST in kind_set else None
    why, since = (lost.reason, lost.since_ms) if lost is not None else ("", 0)
    over = tuple(_find_over_limits(by_name, now)) if Kind.SOURCE_METRIC in kind_set else ()
    foreign = tuple(list_foreign_records(now)) if Kind.FOREIGN_RECORD in kind_set else ()
    return ClusterSnapshot(
        now,
        tuple(connectors),
        tuple(tasks),
        leaderless_ms,
        why,
        since,
        over_limits=over,
        foreign_records=foreign,
        problems=problems,
        replaced_topics=tuple(_find_replaced(now)) if Kind.TOPIC_REPLACED in kind_set else (),
    )


def _not_running(row: Connector, health: KnownHealth) -> dict[str, Any]:
    now_health = health.health_of(row)
    if now_health not in (Health.WAITING, Health.UNKNOWN) or health.vitals.stale:
        return {}  # of a stale database, the cluster's problem is told once
    return {
        "not_running_ms": health.since_ms(row),
        "health": now_health.lower(),
        "reason": reason_with_time(row, health),
    }


def _find_replaced(now: int) -> Iterator[ReplacedTopic]:
    """Yield the topics of the last day: nothing shows whether what they held is missed."""
    for row in ActiveTopic.objects.filter(replaced_ms__gt=now - RECENT_MS).order_by("connector", "topic"):
        yield ReplacedTopic(row.connector, row.topic, row.replaced_ms)


def _find_over_limits(names: Iterable[str], now: int) -> Iterator[OverLimit]:
    """Yield the metrics above their limits, from the tasks' last reports. They count even if the task
    has failed since.
    """
    rows = Task.objects.filter(known=True, connector__in=names, measures__contains='"over_since_ms"')
    for task in rows.only("connector", "number", "measures").order_by("connector", "number"):
        for metric in metrics_of([task], now, fresh=False):
            if metric.over:
                metric_name = ", ".join((metric.name, *metric.labels.values()))
                excess = f"{metric.description}: {metric.display}, more than {metric.shown_limit}"
                message = f"{task.connector}: {excess}. {metric.remedy}"
                subject = f"metric {metric_name} of {task.connector}-{task.number}"
                yield OverLimit(task.connector, subject, message.strip(), metric.over_since_ms)


class Overtaken(Exception):
    """Another worker evaluates now: what is left to write is its own."""


def evaluate(
    now: int, leaderless_ms: int = 0, problems: tuple[ClusterProblem, ...] = (), holder: str | None = None
) -> Changes:
    """Evaluate once: open and close incidents, each together with its messages.

    holder: whose turn it has to be still when something is written; None: anybody's. Requests wait for SQLite's lock:
    so nothing is computed within a transaction, and none is longer than it takes to write a few incidents. What an
    evaluation does not come to, the next one finds again. Raises `Overtaken`.
    """
    rules = {rule.pk: rule for rule in Rule.objects.filter(enabled=True)}
    conditions = [RuleCondition(rule.pk, Kind(rule.kind), rule.pattern, rule.seconds) for rule in rules.values()]
    snapshot = read_snapshot((rule.kind for rule in conditions), now, leaderless_ms, problems)
    episodes = {values[0]: Episode(*values) for values in EpisodeRow.objects.values_list(*_EPISODE_FIELDS)}
    followed = follow(episodes, snapshot)
    findings = evaluate_rules(conditions, replace(snapshot, episodes=tuple(followed.values())))
    incidents = {(one.rule_id or -one.pk, one.subject): one for one in Incident.objects.filter(resolved_ms=0)}
    due = changes(incidents, findings)
    quiet = incident_report.list_silenced(now)
    writes: list[Callable[[], object]] = []
    for (rule_id, _), one in due.opened.items():
        report = write_report(rules[rule_id].kind, one, now).dumps()
        writes.append(partial(_open, rules[rule_id], one, now, report, incident_report.covers(quiet, one.connector)))
    writes += [partial(_resolve, incidents.pop(key), now) for key in due.resolved]
    for key, incident in incidents.items():
        silent = incident_report.covers(quiet, incident.connector)
        if _is_due(incident, findings[key], silent):
            report = write_report(incident.kind, findings[key], now).dumps()
            writes.append(partial(_keep, incident, findings[key], now, report, silent))
    _write([*_list_episode_writes(episodes, followed), *writes], holder)
    return due


def _write(writes: Sequence[Callable[[], object]], holder: str | None) -> None:
    """Write in short transactions, and leave those who wait the first turn before each."""
    left = deque(writes)
    while left:
        give_way(connection)
        with transaction.atomic():
            until = time.monotonic() + _HELD_SECONDS
            # Whoever takes over waits for this row, or has it.
            if holder is not None and not Turn.objects.filter(pk=1, holder=holder).update(holder=holder):
                raise Overtaken
            left.popleft()()
            while left and time.monotonic() < until:
                left.popleft()()


def _list_episode_writes(before: Mapping[str, Episode], now: Mapping[str, Episode]) -> Iterator[Callable[[], object]]:
    """Yield what makes the database have the episodes of failures as they are now."""
    ended = sorted(before.keys() - now.keys())
    changed = [EpisodeRow(**asdict(one)) for one in now.values() if one != before.get(one.subject)]
    for first in range(0, len(ended), _EPISODES_AT_ONCE):
        yield EpisodeRow.objects.filter(subject__in=ended[first : first + _EPISODES_AT_ONCE]).delete
    for first in range(0, len(changed), _EPISODES_AT_ONCE):
        yield partial(
            EpisodeRow.objects.bulk_create,
            changed[first : first + _EPISODES_AT_ONCE],
            update_conflicts=True,
            update_fields=_EPISODE_FIELDS[1:],
            unique_fields=["subject"],
        )


def _is_due(incident: Incident, finding: Finding, quiet: bool) -> bool:
    """Return whether `_keep` would change the incident."""
    return finding.failures != incident.failures or (incident.withheld and not quiet and incident.rule_id is not None)


def _keep(incident: Incident, finding: Finding, now: int, report: str, quiet: bool) -> None:
    """Update an open incident: its number of failures, and the messages that a silence has withheld."""
    if finding.failures != incident.failures:
        incident.failures, incident.summary = finding.failures, finding.summary[:1000]
        incident.report = report
        incident.save(update_fields=["failures", "summary", "report"])
    if incident.withheld and not quiet and incident.rule is not None:
        incident.withheld = False
        incident.save(update_fields=["withheld"])
        _tell_all(incident.rule, incident, now)


def _tell_all(rule: Rule, incident: Incident, now: int) -> None:
    for destination in rule.destinations.filter(enabled=True):
        deliveries.begin(destination, incident_message(incident, MessageKind.FIRING), incident, now)


def _open(rule: Rule, finding: Finding, now: int, report: str, quiet: bool) -> None:
    incident = Incident.objects.create(
        rule=rule,
        rule_name=rule.name,
        kind=rule.kind,
        subject=finding.subject,
        connector=finding.connector,
        summary=finding.summary[:1000],
        began_ms=finding.began_ms or now,
        failures=finding.failures,
        opened_ms=now,
        withheld=quiet,
        report=report,
    )
    if not quiet:
        _tell_all(rule, incident, now)


def _resolve(incident: Incident, now: int) -> None:
    incident.resolved_ms = now
    incident.save(update_fields=["resolved_ms"])
    firings = Delivery.objects.filter(incident=incident, what=MessageKind.FIRING, destination__enabled=True)
    for delivery in firings.select_related("destination"):
        if delivery.destination is not None:
            deliveries.begin(delivery.destination, incident_message(incident, MessageKind.RESOLVED), incident, now)


def prune(now: int) -> None:
    """Delete what is too old to be shown. Open incidents stay."""
    Incident.objects.filter(resolved_ms__gt=0, resolved_ms__lt=now - KEPT_MS).delete()
    Delivery.objects.filter(incident=None, created_ms__lt=now - KEPT_MS).delete()
    Silence.objects.filter(until_ms__lt=now - KEPT_MS).delete()
    prune_foreign_records(now - KEPT_MS)


class Evaluator:
    """The thread of a worker that evaluates the rules when it is its turn."""

    def __init__(self, holder: str, hand: Hand, leads: Leads) -> None:
        """hand: passes a delivery's number to Celery; leads: whether some worker leads, None if unknown."""
        self._holder = holder
        self._hand = hand
        self._leads = leads
        self._leaderless_ms = 0
        self._problems: dict[str, int] = {}
        self._prune_ms = 0

    def run(self, stop: threading.Event) -> None:
        """Run until `stop`."""
        while not stop.wait(EVERY_SECONDS):
            try:
                self.once(now_ms())
            except DatabaseError as error:
                log.warning("Alerts are not evaluated, the database does not answer: %s", error)
            finally:
                close_old_connections()  # this thread serves no request that would do it

    def once(self, now: int) -> None:
        """Evaluate once, if there is something to evaluate and it is this worker's turn."""
        if idle() or not take_turn(self._holder, now):
            return
        self._ask_who_leads(now)
        try:
            evaluate(now, self._leaderless_ms, self._list_problems(now), self._holder)
        except Overtaken:
            return
        for number in deliveries.due(now):
            self._hand(number)
        if now >= self._prune_ms:  # each deletion takes SQLite's lock, for which requests wait
            prune(now)
            self._prune_ms = now + _PRUNE_MS

    def _list_problems(self, now: int) -> tuple[ClusterProblem, ...]:
        """Return what the head of each page says, with the time of its beginning. A missing leader has its own rule."""
        problems = {one.key: one for one in look.vitals().problems if one.key != "no-leader"}
        self._problems = {key: self._problems.get(key) or one.since_ms or now for key, one in problems.items()}
        return tuple(ClusterProblem(key, problems[key].text, since_ms) for key, since_ms in self._problems.items())

    def _ask_who_leads(self, now: int) -> None:
        if not Rule.objects.filter(enabled=True, kind=Kind.NO_LEADER).exists():
            self._leaderless_ms = 0
            return
        leads = self._leads()
        if leads is not None:  # otherwise it is unknown now, and the last known value stays
            self._leaderless_ms = 0 if leads else self._leaderless_ms or now
