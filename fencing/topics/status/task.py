"""`status-task-<c>-<n>`: the state of a task, reported by one of its attempts."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Final

from ringfence.connectors.api import Endpoint
from ringfence.fencing.ids import ConnectorName, Generation, Incarnation, TaskId, WorkerId, parse_task
from ringfence.fencing.topics.status import failed_record
from ringfence.fencing.topics.status.failed_record import RecordFailure
from ringfence.fencing.topics.status_entry import (
    Attempt,
    Fields,
    State,
    StatusEntry,
    StatusFold,
    parse_number,
    parse_text,
)

PLACED: Final = "placed"
RESTARTED: Final = "restarted"
STARTING: Final = "starting"
SUPERSEDED: Final = "superseded"
LOST: Final = "lost"
FAILED: Final = "failed"
MISCONFIGURED: Final = "misconfigured"
SOURCE: Final = "source"
KAFKA: Final = "kafka"
NO_SLOT: Final = "no-slot"
"""No worker has a free slot, so the task has no placement in this generation yet. The leader reports it as attempt 0.
"""


@dataclass(frozen=True, slots=True)
class PollRetry:
    """Why a running task moves nothing: its source refuses, and `poll` is called again after pauses; or Kafka takes no
    records, and the producer asks again.

    cause: the error's message; since_ms: of the first refusal in a row; attempts: their number, 0 if it is not counted;
    next_ms: of the next call, 0 for at once; by: who refuses, SOURCE or KAFKA.
    """

    cause: str
    since_ms: int
    attempts: int
    next_ms: int
    by: str = SOURCE


@dataclass(frozen=True, slots=True)
class TaskStatus(StatusEntry):
    """generation, attempt: the placement that it reports on. All times are wall clock, in milliseconds.

    ended: the attempt is over and never produces again; why: the reason of the end or of the wait, one of the
    constants above; since_ms: when the state changed; restarts: automatic restarts in a row, including this attempt;
    next_ms: when the next one is due, 0 for none; version: the plugin's; left_open: it has ended, and a transaction of
    its transactional id may still be open; failure: the record on which it failed; endpoint: where it listens while it
    runs; reconfigure_ms: when it last requested new task configurations, 0 for never; retry: set while the source
    or Kafka refuses, for longer than a few seconds.
    """

    task: TaskId
    state: State
    worker: WorkerId
    generation: Generation
    attempt: int
    incarnation: Incarnation
    trace: str | None = None
    ended: bool = False
    why: str = ""
    since_ms: int = 0
    restarts: int = 0
    next_ms: int = 0
    version: str | None = None
    left_open: bool = False
    failure: RecordFailure | None = None
    endpoint: Endpoint | None = None
    reconfigure_ms: int = 0
    retry: PollRetry | None = None

    PREFIX = "status-task-"

    @property
    def key(self) -> Attempt:
        """The attempt that reports."""
        return self.task, self.generation, self.attempt

    @property
    def at_work(self) -> bool:
        """Whether it has begun and not ended, so it may have an open transaction."""
        return self.state in (State.RUNNING, State.PAUSED) and not self.ended

    @classmethod
    def parse(cls, rest: str, value: Fields) -> "TaskStatus | None":
        connector, dash, number = rest.rpartition("-")
        if not dash or not (number.isascii() and number.isdigit()):
            return None
        return cls(
            TaskId(ConnectorName(connector), int(number)),
            State(str(value["state"])),
            WorkerId(str(value["worker_id"])),
            Generation(parse_number(value, "generation")),
            parse_number(value, "attempt", 0),
            Incarnation(str(value.get("incarnation", ""))),
            parse_text(value, "trace"),
            bool(value.get("ended")),
            str(value.get("why", "")),
            parse_number(value, "since_ms", 0),
            parse_number(value, "restarts", 0),
            parse_number(value, "next_ms", 0),
            parse_text(value, "version"),
            value.get("left_open") is True,
            failed_record.read(value.get("record")),
            _read_endpoint(value.get("endpoint")),
            parse_number(value, "reconfigure_ms", 0),
            _read_retry(value.get("retry")),
        )

    def to_key(self) -> str:
        return f"{self.PREFIX}{self.task}"

    def to_value(self) -> Fields:
        value: dict[str, object] = {
            "state": self.state,
            "trace": self.trace,
            "worker_id": self.worker,
            "generation": self.generation,
            "attempt": self.attempt,
            "incarnation": self.incarnation,
            "ended": self.ended,
            "why": self.why,
            "since_ms": self.since_ms,
            "restarts": self.restarts,
            "next_ms": self.next_ms,
            "version": self.version,
        }
        value |= {"left_open": True} if self.left_open else {}
        value |= {"endpoint": asdict(self.endpoint)} if self.endpoint is not None else {}
        value |= {"reconfigure_ms": self.reconfigure_ms} if self.reconfigure_ms else {}
        value |= {"retry": asdict(self.retry)} if self.retry is not None else {}
        return value | ({"record": self.failure.fields()} if self.failure is not None else {})

    def apply_to(self, fold: StatusFold) -> None:
        newest = fold.task(self.task)
        fold.remove_leaving(self.key)
        if not replaces(self, newest):
            return
        if self.at_work:  # it has fenced all earlier attempts
            fold.clear_leaving(self.task)
        elif newest is not None and newest.at_work and newest.key != self.key:
            fold.add_leaving(newest)
        fold.set_task(self)

    @classmethod
    def remove(cls, rest: str, fold: StatusFold) -> None:
        if (task := parse_task(rest)) is not None:
            fold.remove_task(task)


def _read_endpoint(value: object) -> Endpoint | None:
    if not isinstance(value, Mapping):
        return None
    port = value.get("port")
    if not isinstance(port, int) or not 0 < port < 65536:
        return None
    return Endpoint(str(value.get("id", "")), str(value.get("host", "")), port, str(value.get("secret", "")))


def _read_retry(value: object) -> PollRetry | None:
    if not isinstance(value, Mapping):
        return None
    since_ms, attempts, next_ms = (parse_number(value, name, 0) for name in ("since_ms", "attempts", "next_ms"))
    by = str(value.get("by", SOURCE))
    return PollRetry(str(value.get("cause", "")), since_ms, attempts, next_ms, by)


def replaces(record: TaskStatus, current: TaskStatus | None) -> bool:
    """Return whether a report replaces the known one. Reports of zombies and of older attempts may arrive late.

    Every reader of the topic must check this: the newest record under a key may be a zombie's.
    """
    same = current is not None and (record.generation, record.attempt) == (current.generation, current.attempt)
    if record.why == SUPERSEDED:
        return same
    if current is None:
        return True
    announced = record.why in (PLACED, RESTARTED, NO_SLOT)
    if record.generation == current.generation:
        # The leader announces an attempt before it runs, but its record may follow the attempt's own first report.
        return record.attempt > current.attempt or (same and not announced)
    return announced or record.since_ms >= current.since_ms
