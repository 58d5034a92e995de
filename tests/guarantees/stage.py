"""A connector on the real broker without leader, worker or Spark: the config records are written by hand."""

import functools
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ringfence.connectors.api import RecordBatch, SourceRecord, SourceTask
from ringfence.fencing.clock import Deadline
from ringfence.fencing.ids import TaskId
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.fencing.offsets.record_counts import RecordCounts
from ringfence.fencing.offsets.source_offsets import SourceOffsets, read_offsets
from ringfence.fencing.records.error_handling import Convert
from ringfence.fencing.records.error_handling import Stage as Stage_
from ringfence.fencing.task.joint_reads import JointReads
from ringfence.fencing.task.source_task import SourceTaskRun
from ringfence.fencing.task.task_spec import Outcome, Plugin, TaskSpec
from ringfence.fencing.topics.config_records import TargetStateRecord
from ringfence.fencing.topics.connector_state import Placement, TargetState
from ringfence.fencing.topics.reporter import Reporter
from ringfence.fencing.topics.status import StatusState, TaskStatus, apply, decode
from ringfence.fencing.topics.topic_log import TopicLog
from ringfence.fencing.transactions.client import TransactionalClient
from ringfence.testing.connector_run import ConfigTopic
from tests.support.waiting import eventually

log = logging.getLogger(__name__)

PARTITION = {"source": "numbers"}


@dataclass
class Script:
    """What the counting task does, and what was seen of it."""

    limit: int = 10_000_000
    batch: int = 50
    before_poll: Callable[["Counting"], None] = lambda task: None
    instances: list["Counting"] = field(default_factory=list)
    committed: list[int] = field(default_factory=list)
    commits: int = 0


class Counting(SourceTask):
    """Emits 0, 1, 2, … from the committed offset on."""

    script: Script

    def start(self, config: Mapping[str, str]) -> None:
        offset = self.context.offset_reader.offset(PARTITION)
        self.next = int(str(offset["next"])) if offset else 0
        self.topic = config["topic"]
        self.polls = 0
        self.stopped = False
        self.script.instances.append(self)

    def poll(self) -> Sequence[SourceRecord] | RecordBatch | None:
        self.polls += 1
        self.script.before_poll(self)
        if self.next >= self.script.limit:
            self.context.wait(0.5)
            return None
        end = min(self.next + self.script.batch, self.script.limit)
        records = [self.record(number) for number in range(self.next, end)]
        self.next = end
        return records

    def record(self, number: int) -> SourceRecord:
        return SourceRecord(PARTITION, {"next": number + 1}, self.topic, str(number).encode())

    def stop(self) -> None:
        self.stopped = True


class Listening(Counting):
    """The same, and it wants to hear of commits."""

    def commit_record(self, record: SourceRecord) -> None:
        assert isinstance(record.value, bytes)
        self.script.committed.append(int(record.value))

    def commit(self) -> None:
        self.script.commits += 1


class Plain:
    """No transforms; values and keys are bytes already."""

    transforms = False
    column = None
    converters = None
    transforms_by_class: Sequence[tuple[str, Callable[[SourceRecord], SourceRecord | None]]] = ()
    converter_classes: Mapping[Stage_, str] = dict.fromkeys(Stage_, "Plain")

    def __init__(self, raw: bool) -> None:
        self.raw = raw

    def record(self, record: SourceRecord) -> SourceRecord | None:
        return record

    def key(self, topic: str, value: object, schema: object = None) -> bytes | None:
        return value if isinstance(value, bytes) else None

    def value(self, topic: str, value: object, schema: object = None) -> bytes | None:
        return value if isinstance(value, bytes) else None

    def headers(self, topic: str, headers: Sequence[tuple[str, object]]) -> list[tuple[str, bytes | None]]:
        return [(name, value if isinstance(value, bytes) else None) for name, value in headers]


def read_statuses(connection: Connection, topic: str) -> StatusState:
    """Read a status topic to its end, and fold it."""
    log = TopicLog(connection, topic)
    state = StatusState()
    try:
        for record in log.read_to_end(Deadline.after(60)):
            state = apply(state, decode(record.key, record.value))
    finally:
        log.close()
    return state


class Stage(ConfigTopic):
    """A connector with one task and a topic for its data, and attempts that run on threads."""

    def __init__(self, connection: Connection, name: str, connector: str = "numbers") -> None:
        super().__init__(connection, name, connector)
        self.data = f"{name}-data"
        self.task = TaskId(self.connector, 0)
        create_topics(connection, [TopicSpec(self.data)], Deadline.after(30))
        self.attempts: list[Attempt] = []
        self.joint: JointReads | None = None
        """Shared by the attempts that start from now on, as in a process of several."""

    def share_reads(self) -> None:
        """Let the attempts that start from now on read together."""
        self.joint = JointReads(self.connection, self.topics)
        self.joint.follower.start()

    def configure(self, config: Mapping[str, str]) -> None:
        """A new generation of one task, not fenced yet."""
        self.write_generation(config, [config])

    def place(self, attempt: int) -> Placement:
        return self.place_task(self.task, attempt)

    def start(
        self,
        script: Script,
        config: Mapping[str, str],
        attempt: int = 1,
        *,
        kind: type[Counting] = Counting,
        raw: bool = True,
        convert: Convert | None = None,
        new_producer: Callable[[TaskSpec, int], TransactionalClient] | None = None,
        worker: Mapping[str, str] | None = None,
    ) -> "Attempt":
        """Place an attempt and run it on a thread. `worker`: more settings of the worker."""
        placement = self.place(attempt)
        settings = {"offset.flush.interval.ms": "60000", "transaction.timeout.ms": "60000", **(worker or {})}
        spec = TaskSpec(self.connection, self.group, self.topics, self.task, placement, "", config, config, settings)
        started = Attempt(spec, script, config, kind, convert or Plain(raw), new_producer, self.joint)
        self.attempts.append(started)
        return started

    def stop(self) -> None:
        """Stop the connector. Its newest attempt ends without an error."""
        self.write(TargetStateRecord(self.connector, TargetState.STOPPED))
        assert self.attempts[-1].ended().trace is None

    def close(self) -> None:
        for attempt in self.attempts:
            attempt.run.end()
            attempt.thread.join(30)
        if self.joint is not None:
            self.joint.follower.close()
        super().close()

    def visible(self) -> list[int]:
        """What a read_committed reader sees now."""
        return [number for transaction in self.transactions() for number in transaction]

    def transactions(self) -> list[list[int]]:
        """The same, one list for each transaction: a marker stands behind each, and takes an offset."""
        found: list[list[int]] = []
        after = -1
        log = TopicLog(self.connection, self.data)
        try:
            for record in log.read_to_end(Deadline.after(60)):
                if record.offset != after:
                    found.append([])
                found[-1].append(int(record.value or b"-1"))
                after = record.offset + 1
        finally:
            log.close()
        return found

    def offset(self) -> int:
        """The committed source offset."""
        position = self._read_offsets().offset(PARTITION)
        return int(str(position["next"])) if position else 0

    def counted(self) -> RecordCounts:
        """What the attempts told in their transactions that they committed, in all."""
        return functools.reduce(RecordCounts.plus, self._read_offsets().counts.values(), RecordCounts())

    def _read_offsets(self) -> SourceOffsets:
        """Patient, because a commit is answered before its markers are written."""
        deadline = Deadline.after(60)
        return read_offsets(self.connection, self.topics.offsets, self.connector, deadline, patience_s=10)

    def status(self) -> TaskStatus | None:
        """The task's newest status."""
        return self.statuses().tasks.get(self.task)

    def statuses(self) -> StatusState:
        """The status topic, folded."""
        return read_statuses(self.connection, self.topics.status)

    def exact(self, at_least: int) -> int:
        """Asserts 0..n-1, none missing, none twice, and an offset that agrees; returns n."""
        seen = self.visible()
        assert seen == list(range(len(seen))), f"missing or twice: {seen[:60]}"
        assert len(seen) >= at_least
        assert self.offset() == len(seen)
        return len(seen)

    def wait_for(self, records: int) -> None:
        eventually(lambda: len(self.visible()) >= records, 60, f"{records} visible records", pause=0.1)


class Attempt:
    """A running attempt."""

    def __init__(
        self,
        spec: TaskSpec,
        script: Script,
        config: Mapping[str, str],
        kind: type[Counting],
        convert: Convert,
        new_producer: Callable[[TaskSpec, int], TransactionalClient] | None,
        joint: JointReads | None = None,
    ) -> None:
        self.outcome: Outcome | None = None
        self._script = script
        made = type("Scripted", (kind,), {"script": script})
        plugin = Plugin(made, config, convert)
        self._reporter = Reporter(spec.connection, spec.topics.status, spec.topics.events)
        self.run = SourceTaskRun(spec, plugin, self._reporter, new_producer=new_producer, joint=joint)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.outcome = self.run.run()
            # Shown if the test fails.
            log.warning("Attempt %d ended: %s", self.run._spec.placement.attempt, self.outcome.reason)
        finally:
            self._reporter.flush(60)
            self._reporter.close()

    def finish_after(self, number: int) -> None:
        """Let it read up to `number`, commit and end."""
        script = self._script
        eventually(lambda: bool(script.instances) and script.instances[-1].next >= number, 60, f"{number} were polled")
        self.run.end()
        self.ended()

    def ended(self, seconds: float = 60) -> Outcome:
        self.thread.join(seconds)
        assert self.outcome is not None, "the attempt still runs"
        return self.outcome
