"""Failures as episodes: an episode spans automatic restarts, until records flow again or the connector is at rest.
Pure.

After each automatic restart, a failed task runs for some seconds until it reaches the same record again. That must not
count as resolved, and a rule's "for 60 s" must not start again with the newest failure.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from ringfence.alerts.conditions import last_error
from ringfence.alerts.snapshot import ClusterSnapshot, ConnectorSnapshot, Episode, TaskSnapshot
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
