"""The condition of each kind of rule, and the resulting changes of incidents. Pure functions from a
snapshot to incidents.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ringfence.alerts.snapshot import ClusterSnapshot
from ringfence.connectors.plural_forms import write_count
from ringfence.crashes import describe_crash
from ringfence.error_class import describe_error, split_class
from ringfence.fencing.name_patterns import matches
from ringfence.fencing.topics.status_entry import error_of


class Kind(StrEnum):
    """The condition of a rule."""

    FAILED = "failed"
    RETRYING = "retrying"
    NOT_RUNNING = "not-running"
    CLUSTER = "cluster"
    STALLED = "stalled"
    BAD_RECORDS = "bad-records"
    OPEN_TRANSACTION = "open-transaction"
    DATA_OLD = "data-old"
    SOURCE_METRIC = "source-metric"
    FENCING_FAILED = "fencing-failed"
    NO_LEADER = "no-leader"
    TOPIC_LOST = "topic-lost"
    TOPIC_REPLACED = "topic-replaced"
    FOREIGN_RECORD = "foreign-record"

    @property
    def meaning(self) -> str:
        return _MEANINGS[self]


_MEANINGS = {
    Kind.FAILED: "a connector or one of its tasks has failed",
    Kind.RETRYING: "a source cannot be read or Kafka takes no records, and the task tries again",
    Kind.NOT_RUNNING: "a connector does not reach its requested state, or it is unknown whether it runs",
    Kind.CLUSTER: "Kafka, Redis, a worker or the projection does not answer",
    Kind.STALLED: "a running task has read nothing from its source",
    Kind.BAD_RECORDS: "records were skipped, or went to a dead letter queue, in the last hour",
    Kind.OPEN_TRANSACTION: "a task's transaction is open: readers of its topics wait",
    Kind.DATA_OLD: "what the source has had for so long is not in Kafka",
    Kind.SOURCE_METRIC: "a source is behind, or holds too much back: one of its metrics is above its limit",
    Kind.FENCING_FAILED: "a fencing round has failed, and its tasks wait",
    Kind.TOPIC_LOST: "a topic that holds the cluster's state is gone or was replaced: nothing runs",
    Kind.TOPIC_REPLACED: "a topic that a connector writes to was deleted and created again in the last day",
    Kind.FOREIGN_RECORD: "a process other than a leader of this cluster has written to the config topic",
    Kind.NO_LEADER: "no worker leads: nothing is placed, fenced or changed",
}


class MessageKind(StrEnum):
    """The three kinds of messages."""

    FIRING = "firing"
    RESOLVED = "resolved"
    TEST = "test"


@dataclass(frozen=True, slots=True)
class RuleCondition:
    """A rule. id: identifies it."""

    id: int
    kind: Kind
    pattern: str
    seconds: int


@dataclass(frozen=True, slots=True)
class Finding:
    """A cause that a rule has found. subject: names the cause, and stays the same as long as the cause does."""

    subject: str
    connector: str
    summary: str
    began_ms: int = 0
    failures: int = 0


@dataclass(frozen=True, slots=True)
class Changes:
    """The incidents to open and to close. An open incident that is found again does not change."""

    opened: Mapping[tuple[int, str], Finding] = field(default_factory=dict)
    resolved: frozenset[tuple[int, str]] = frozenset()


def changes(are_open: Iterable[tuple[int, str]], findings: Mapping[tuple[int, str], Finding]) -> Changes:
    """Compare open incidents with findings, both by (rule, subject). A lasting cause stays one incident."""
    open_keys = frozenset(are_open)
    new = {key: one for key, one in findings.items() if key not in open_keys}
    return Changes(new, open_keys - findings.keys())


def evaluate_rules(rules: Iterable[RuleCondition], snapshot: ClusterSnapshot) -> dict[tuple[int, str], Finding]:
    """Return the findings of the rules, by (rule, subject)."""
    return {(rule.id, one.subject): one for rule in rules for one in _LOOK[rule.kind](rule, snapshot)}


def _lasts(rule: RuleCondition, snapshot: ClusterSnapshot, since_ms: int) -> bool:
    return since_ms > 0 and snapshot.now_ms - since_ms >= rule.seconds * 1000


def last_error(trace: str) -> str:
    """Return the message of the last error in a Python trace; "" for an empty trace."""
    return describe_crash(trace) or describe_error(*split_class(error_of(trace)))


def _find_failed(rule: RuleCondition, snapshot: ClusterSnapshot) -> Iterator[Finding]:
    for one in snapshot.episodes:
        if _lasts(rule, snapshot, one.began_ms) and matches(rule.pattern, one.connector):
            yield Finding(one.subject, one.connector, one.summary, one.began_ms, one.failures)


def _find_retrying(rule: RuleCondition, snapshot: ClusterSnapshot) -> Iterator[Finding]:
    for task in snapshot.tasks:
        if _lasts(rule, snapshot, task.retrying_ms) and matches(rule.pattern, task.connector):
            subject = f"source of task {task.connector}-{task.number}"
            what = "cannot write to Kafka" if task.refused_by_kafka else "cannot read its source"
            message = f"Task {task.number} of {task.connector} {what}, and tries again. {task.refusal}"
            yield Finding(subject, task.connector, message, task.retrying_ms)


def _find_not_running(rule: RuleCondition, snapshot: ClusterSnapshot) -> Iterator[Finding]:
    for one in snapshot.connectors:
        if _lasts(rule, snapshot, one.not_running_ms) and matches(rule.pattern, one.name):
            message = f"Connector {one.name} is {one.health}: {one.reason}"
            yield Finding(f"state of {one.name}", one.name, message, one.not_running_ms)


def _find_cluster_problems(rule: RuleCondition, snapshot: ClusterSnapshot) -> Iterator[Finding]:
    for problem in snapshot.problems:
        if _lasts(rule, snapshot, problem.since_ms):
            yield Finding(problem.key, "", problem.summary, problem.since_ms)


def _find_stalled(rule: RuleCondition, snapshot: ClusterSnapshot) -> Iterator[Finding]:
    """With 0 seconds: longer than usual for the connector. Otherwise: a task that has read nothing for that long."""
    if rule.seconds == 0:
        for one in snapshot.connectors:
            if one.stalled and matches(rule.pattern, one.name):
                message = f"Connector {one.name} runs, but has moved nothing for longer than usual"
                yield Finding(f"connector {one.name}", one.name, message)
        return
    resting = {one.name for one in snapshot.connectors if one.target != "RUNNING"}
    for task in snapshot.tasks:
        if task.state != "RUNNING" or task.connector in resting or not matches(rule.pattern, task.connector):
            continue
        # If it has read nothing yet, since its start: reads of earlier attempts do not count.
        if _lasts(rule, snapshot, max(task.polled_ms, task.since_ms)):
            subject = f"task {task.connector}-{task.number}"
            message = f"Task {task.number} of {task.connector} runs, and has read nothing for {rule.seconds} s"
            yield Finding(subject, task.connector, f"{message}. If its source has news, look at its log")


def _find_bad_records(rule: RuleCondition, snapshot: ClusterSnapshot) -> Iterator[Finding]:
    for one in snapshot.connectors:
        bad = one.skipped + one.dead_letters
        if bad and _lasts(rule, snapshot, one.bad_since_ms) and matches(rule.pattern, one.name):
            message = f"Connector {one.name} could not process {write_count(bad, 'record')} in the last hour"
            was = "was" if one.skipped == 1 else "were"
            fate = f"{one.dead_letters} went to its dead letter queue, {one.skipped} {was} skipped"
            yield Finding(f"connector {one.name}", one.name, f"{message}: {fate}")


def _open(rule: RuleCondition, snapshot: ClusterSnapshot) -> Iterator[Finding]:
    for task in snapshot.tasks:
        if _lasts(rule, snapshot, task.open_since_ms) and matches(rule.pattern, task.connector):
            subject = f"task {task.connector}-{task.number}"
            message = (
                f"Task {task.number} of {task.connector} has had a transaction open for more than {rule.seconds} s"
            )
            yield Finding(subject, task.connector, f"{message}: read_committed readers of its topics wait")


def _find_old_data(rule: RuleCondition, snapshot: ClusterSnapshot) -> Iterator[Finding]:
    running = {one.name for one in snapshot.connectors if one.target == "RUNNING"}
    oldest: dict[str, int] = {}
    for task in snapshot.tasks:
        if task.data_as_of_ms and task.connector in running:
            oldest[task.connector] = min(oldest.get(task.connector, task.data_as_of_ms), task.data_as_of_ms)
    for name, at_ms in oldest.items():
        if _lasts(rule, snapshot, at_ms) and matches(rule.pattern, name):
            message = f"What the source of {name} has had for more than {rule.seconds} s may not be in Kafka"
            yield Finding(f"data of {name}", name, message, at_ms)


def _find_over_limits(rule: RuleCondition, snapshot: ClusterSnapshot) -> Iterator[Finding]:
    for one in snapshot.over_limits:
        if _lasts(rule, snapshot, one.since_ms) and matches(rule.pattern, one.connector):
            yield Finding(one.subject, one.connector, one.summary, one.since_ms)


def _fencing(rule: RuleCondition, snapshot: ClusterSnapshot) -> Iterator[Finding]:
    for one in snapshot.connectors:
        if _lasts(rule, snapshot, one.round_failed_ms) and matches(rule.pattern, one.name):
            yield Finding(f"connector {one.name}", one.name, f"The fencing round of {one.name} fails: {one.message}")


def _leaderless(rule: RuleCondition, snapshot: ClusterSnapshot) -> Iterator[Finding]:
    if _lasts(rule, snapshot, snapshot.leaderless_ms):
        yield Finding("leader", "", "No worker leads: nothing is placed, fenced or changed. Each worker's log says why")


def _topic_lost(rule: RuleCondition, snapshot: ClusterSnapshot) -> Iterator[Finding]:
    if snapshot.topics_lost and _lasts(rule, snapshot, snapshot.topics_lost_ms):
        yield Finding("topics", "", snapshot.topics_lost)


def _find_replaced(rule: RuleCondition, snapshot: ClusterSnapshot) -> Iterator[Finding]:
    for one in snapshot.replaced_topics:
        if _lasts(rule, snapshot, one.since_ms) and matches(rule.pattern, one.connector):
            message = f"Topic {one.topic} of {one.connector} was deleted and created again: its records are gone"
            yield Finding(f"topic {one.topic} of {one.connector}", one.connector, message, one.since_ms)


def _find_foreign_records(rule: RuleCondition, snapshot: ClusterSnapshot) -> Iterator[Finding]:
    for one in snapshot.foreign_records:
        if _lasts(rule, snapshot, one.since_ms) and matches(rule.pattern, one.connector):
            subject = f"config records of {one.connector}" if one.connector else "config records"
            yield Finding(subject, one.connector, one.summary, one.since_ms, one.count)


_LOOK: dict[Kind, Callable[[RuleCondition, ClusterSnapshot], Iterator[Finding]]] = {
    Kind.FAILED: _find_failed,
    Kind.RETRYING: _find_retrying,
    Kind.NOT_RUNNING: _find_not_running,
    Kind.CLUSTER: _find_cluster_problems,
    Kind.STALLED: _find_stalled,
    Kind.BAD_RECORDS: _find_bad_records,
    Kind.OPEN_TRANSACTION: _open,
    Kind.DATA_OLD: _find_old_data,
    Kind.SOURCE_METRIC: _find_over_limits,
    Kind.FENCING_FAILED: _fencing,
    Kind.NO_LEADER: _leaderless,
    Kind.TOPIC_LOST: _topic_lost,
    Kind.TOPIC_REPLACED: _find_replaced,
    Kind.FOREIGN_RECORD: _find_foreign_records,
}

_PAUSES_S = (5, 10, 20, 40, 80, 160, 320, 640, 1280)


def pause_ms(tries: int) -> int | None:
    """Return the pause after this many failed tries; None to give up, after about 40 minutes."""
    return _PAUSES_S[tries - 1] * 1000 if tries <= len(_PAUSES_S) else None
