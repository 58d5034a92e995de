"""Finds the workers that can run tasks: the group's live members with their `worker-<id>` records."""

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from ringfence.engine.dead_peers import describe_process
from ringfence.fencing.backoff import Backoff
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import FencingError
from ringfence.fencing.ids import Incarnation, TaskId, WorkerId, parse_member_client_id
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.consumer_groups import GroupMember, group_members
from ringfence.fencing.leader.next_placement import LiveWorker, Place, status_of
from ringfence.fencing.leader.reconcile import waiting_for
from ringfence.fencing.modes import lagging, parse_mode
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.config_records import connector_of
from ringfence.fencing.topics.config_records.format import FORMAT
from ringfence.fencing.topics.leader_stamps import Foreign
from ringfence.fencing.topics.reporter import Reporter
from ringfence.fencing.topics.status import FAILED, MISCONFIGURED, StatusState, WorkerRecord
from ringfence.worker_config import WorkerConfig

_FORGIVEN_SECONDS = 60.0
_BACKOFF = Backoff(1.0, 30)


@dataclass(frozen=True, slots=True)
class _Loss:
    attempt: tuple[int, int]
    times: int
    not_before: float


class LostAttempts:
    """The losses that one term has seen. A new leader knows none, so it waits again rather than not at all."""

    def __init__(self, delay_s: float | None) -> None:
        """delay_s: how long to wait for a worker that left (`scheduled.rebalance.max.delay.ms`); None if not set."""
        self._delay_s = delay_s
        self._losses: dict[TaskId, _Loss] = {}
        self._not_before: dict[TaskId, float] = {}
        self._held_until: dict[Place, float] = {}
        self._forget_at = 0.0

    @property
    def not_before(self) -> Mapping[TaskId, float]:
        """The monotonic times before which lost tasks are not placed again."""
        return self._not_before

    @property
    def held_until(self) -> Mapping[Place, float]:
        """The monotonic times until which the tasks of a worker that left wait for it."""
        return self._held_until

    def note(self, state: ClusterState, status: StatusState, members: Sequence[LiveWorker], now: float) -> None:
        """Take in the newest state, at least of the connectors that do not rest. If a task is lost again and again, the
        pauses before its next placement grow.
        """
        self._held_until = waiting_for(state, members, self._held_until, self._delay_s, now, status)
        for connector in state.existing():
            for number, placement in connector.placements.items():
                task = TaskId(connector.name, number)
                task_status = status_of(status, task, placement)
                attempt = (placement.generation, placement.attempt)
                loss = self._losses.get(task)
                # The newest attempt cannot be superseded: if it says so, it ended for another reason and is lost, too.
                if task_status is None or not task_status.ended or task_status.why in (FAILED, MISCONFIGURED):
                    continue
                if loss is not None and loss.attempt == attempt:
                    continue
                recent = loss is not None and now - loss.not_before < _FORGIVEN_SECONDS
                times = loss.times + 1 if loss is not None and recent else 0
                self._losses[task] = loss = _Loss(attempt, times, now + _BACKOFF.pause(times))
                self._not_before[task] = loss.not_before
        if now >= self._forget_at:
            self._forget_at = now + _FORGIVEN_SECONDS
            self._forget(state, now)

    def _forget(self, state: ClusterState, now: float) -> None:
        """Forget losses that make no pause longer any more, except of attempts that no other one has followed yet: they
        would be taken for new ones.
        """
        for task, loss in list(self._losses.items()):
            placement = state.connector(task.connector).placements.get(task.task)
            is_newest = placement is not None and (placement.generation, placement.attempt) == loss.attempt
            if not is_newest and now - loss.not_before >= _FORGIVEN_SECONDS:
                del self._losses[task], self._not_before[task]


class ModeWatch:
    """Watches the modes for one term of the leader."""

    def __init__(self, worker: WorkerId, reporter: Reporter) -> None:
        self._worker = worker
        self._reporter = reporter
        self._last_difference = ""

    def look(self, members: Sequence[LiveWorker]) -> None:
        """Log and report a difference, once for each change."""
        difference = lagging((member.worker, member.mode) for member in members)
        if difference == self._last_difference:
            return
        self._last_difference = difference
        text = difference or "all workers are in one mode"
        log.log(logging.WARNING if difference else logging.INFO, "exactly.once.source.support: %s", text)
        self._reporter.event("leader", worker=self._worker, stage="worker modes", message=text)


log = logging.getLogger(__name__)

_ASKED_SECONDS = 10.0


def live_workers(connection: Connection, group_id: str, status: StatusState, deadline: Deadline) -> list[WorkerRecord]:
    """Return the status records of the live members. Raises as `group_members`."""
    return live_records(group_members(connection, group_id, deadline), status)


def live_records(members: Iterable[GroupMember], status: StatusState) -> list[WorkerRecord]:
    """Return the status records of these members.

    A worker that has just left the group to hand over the leadership is included, since its tasks continue.
    """
    now_ms = time.time() * 1000
    records = [record for record in status.workers.values() if record.away_until_ms > now_ms]
    for member in members:
        client_id = parse_member_client_id(member.client_id)
        record = status.workers.get(client_id[0]) if client_id else None
        if (
            record is not None
            and client_id is not None
            and record.incarnation == client_id[1]
            and record not in records
        ):
            records.append(record)
    return records


def worker_modes(
    connection: Connection, group_id: str, status: StatusState, deadline: Deadline
) -> dict[str, str] | None:
    """Return `exactly.once.source.support` of each live worker by its id; None if the brokers do not answer."""
    try:
        live = live_workers(connection, group_id, status, deadline)
    except FencingError as error:
        log.info("Which workers live could not be found out: %s", error)
        return None
    return {record.worker: record.mode for record in live}


def is_member(connection: Connection, group_id: str, worker: str) -> bool:
    """Return whether a worker with this id is in the group. Raises as `group_members`."""
    members = group_members(connection, group_id, Deadline.after(_ASKED_SECONDS))
    return worker in [client_id[0] for member in members if (client_id := parse_member_client_id(member.client_id))]


def identity(
    worker: str, incarnation: str, config: WorkerConfig, slots: int, version: str, now_ms: int
) -> WorkerRecord:
    """Return this worker's status record."""
    return WorkerRecord(
        WorkerId(worker),
        Incarnation(incarnation),
        config.mode,
        slots,
        version,
        now_ms,
        process=describe_process(),
        format=FORMAT,
    )


class ForeignRecords:
    """Reports each record once for each worker that leads, since reports are not stored."""

    def __init__(self, config_topic: str, records: Sequence[Foreign], reporter: Reporter) -> None:
        """records: those that are known; they are only added to."""
        self._topic = config_topic
        self._records = records
        self._reporter = reporter
        self._looked_at = 0
        self._reported_offsets: set[int] = set()

    def report(self) -> None:
        """Report those that are new. Call it on the leader's thread."""
        new = self._records[self._looked_at :]
        self._looked_at += len(new)
        for one in new:
            if one.offset in self._reported_offsets:
                continue
            self._reported_offsets.add(one.offset)
            text = (
                f"Topic {self._topic}, offset {one.offset}, key {one.key}: no leader of this cluster wrote that "
                f"record ({one.why}). It is used nevertheless. Check who may write to the topic, and correct the "
                "record's effect"
            )
            log.error("%s", text)
            connector = connector_of(one.key.encode()) or ""
            self._reporter.event("foreign", connector, offset=one.offset, key=one.key, message=text)


_SECONDS = 0.5
_ANSWER_SECONDS = 5.0
Ask = Callable[[], Iterable[GroupMember]]


def find_members(connection: Connection, group_id: str) -> list[GroupMember]:
    """Ask the brokers for at most 5 s. Raises as `group_members`."""
    return group_members(connection, group_id, Deadline.after(_ANSWER_SECONDS))


class MemberWatch:
    """The live members as of the newest answer. All methods are called on the leader's thread."""

    def __init__(self, ask: Ask) -> None:
        """ask: returns the members; called on the other thread, at most every half second."""
        self._ask = ask
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="members")
        self._request: Future[Iterable[GroupMember]] | None = None
        self._asked_at = 0.0
        self._answer: Iterable[GroupMember] | None = None

    def begin(self) -> None:
        """Forget the answers of an earlier term."""
        if self._request is not None:
            self._request.cancel()
        self._request = self._answer = None
        self._asked_at = 0.0

    def find(self, status: StatusState) -> list[LiveWorker] | None:
        """Return the members whose status record has the same incarnation. None until the first answer of the term, and
        from a question that failed until the next answer; its error is raised once.
        """
        if self._request is not None and self._request.done():
            future, self._request, self._answer = self._request, None, None
            self._answer = future.result()
        if self._request is None and time.monotonic() - self._asked_at >= _SECONDS:
            self._asked_at = time.monotonic()
            self._request = self._pool.submit(self._ask)
        if self._answer is None:
            return None
        records = live_records(self._answer, status)
        return [
            LiveWorker(record.worker, record.incarnation, record.slots, parse_mode(record.mode), record.format)
            for record in records
        ]

    def close(self) -> None:
        """End the thread, which may still wait for an answer."""
        self._pool.shutdown(wait=False, cancel_futures=True)
