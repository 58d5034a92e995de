"""Transforms and converts records before their source accepts them, so that no stranger's record can fail the task.

Whatever a record makes a transform or a converter raise refuses this record alone, and so does everything for which a
producer or a broker would refuse it later: its size, its topic, its partition, a missing key, its time. What no record
can help, such as a topic that the connector may not write to, fails the task as ever.

The broker aborts a transaction that has outlived its timeout (KIP-618, "Offset (and record) writes"). To the client
this looks like another producer with the id, or like a slow broker. The transaction's age shows the difference (the
config topic says whether there is another producer), and the error names the KIP's four remedies.

Before a producer writes to a topic, no transaction of its older epochs hangs there (invariant 13, `TaskLeftovers`). The
check costs about 10 ms of CPU time, and runs while the source offsets are read; a topic that is used later is
checked before its first record. After the first record, no older epoch can write to its partition.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Final

from ringfence.connectors.api import ConnectorError, RecordRefused, RetriableError, SourceRecord
from ringfence.fencing.clock import Clock, Deadline
from ringfence.fencing.errors import Abortable, Fatal, Fenced, FencingError, Retriable
from ringfence.fencing.kafka.connection import QUEUE_BYTES
from ringfence.fencing.kafka.open_transactions import Hanging
from ringfence.fencing.kafka.topic_admin import find_topic, topic_identity, topic_settings
from ringfence.fencing.leader import older_epochs
from ringfence.fencing.leader.fence_targets import list_admin_access
from ringfence.fencing.leader.older_epochs import end_leftovers
from ringfence.fencing.records.prepared_batch import AdmittedRecord, PreparedBatch
from ringfence.fencing.records.record_path import RecordPath
from ringfence.fencing.records.topic_name_check import TopicLimits, check_name, check_record, record_bytes
from ringfence.fencing.task.clients import admin_connection
from ringfence.fencing.task.joint_reads import JointReads
from ringfence.fencing.task.runtime import Superseded, TaskRuntime
from ringfence.fencing.task.task_spec import TaskSpec
from ringfence.fencing.transactions.client import TransactionalClient

_NOBODYS = -1
_SECONDS = 60.0
_PAUSE_S = 0.5


class TaskLeftovers:
    """The check of one attempt, for all its producers. Used on the task's thread. Call `close` at the end."""

    def __init__(
        self,
        spec: TaskSpec,
        clock: Clock,
        on_end: Callable[[Hanging], None],
        stopping: Callable[[], None],
        joint: JointReads | None = None,
    ) -> None:
        """on_end: called with each transaction that was ended, on another thread. stopping: raises if the attempt must
        end. joint: of the process, if it runs several attempts.
        """
        self._spec = spec
        self._clock = clock
        self._on_end = on_end
        self._stopping = stopping
        self._joint = joint
        self._epochs: dict[int, int] = {}
        self._topics: set[str] = set()
        self._under_way: Future[None] | None = None
        self._closing = threading.Event()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="leftovers")
        self.trouble = ""
        """What the check waits for, as a message; "" if it makes progress."""

    def connect(self) -> None:
        """Connect in the background, before there is anything to check. Attempts that share a process do not: there,
        one connection is enough.
        """
        if self._joint is not None:
            return
        accesses = list_admin_access(
            None, self._spec.connector_config, self._spec.connection, self._spec.worker_settings
        )
        self._pool.submit(older_epochs.connect, accesses)

    def begin(self, producer: TransactionalClient, offsets_topic: str) -> None:
        """Check the topics that a producer will certainly write to, after its `init` has returned."""
        self._epochs = {producer.producer_id: producer.epoch} if producer.producer_id != _NOBODYS else {}
        names = self._spec.connector_config.get("topic", "").split(",")
        self._topics = {offsets_topic, *(name.strip() for name in names if name.strip())}
        self._under_way = self._pool.submit(self._look, frozenset(self._topics))

    def clear(self, topics: Set[str]) -> None:
        """Return once no transaction hangs on these topics. Raises `Retriable`, naming one that cannot be ended."""
        under_way, self._under_way = self._under_way, None
        if under_way is not None:
            self._await(under_way)
        if more := frozenset(topics - self._topics):
            self._await(self._pool.submit(self._look, more))
            self._topics |= more

    def _await(self, under_way: "Future[None]") -> None:
        while not wait([under_way], _PAUSE_S).done:
            self._stopping()
        under_way.result()

    def _look(self, topics: frozenset[str]) -> None:
        spec = self._spec
        accesses = list_admin_access(None, spec.connector_config, spec.connection, spec.worker_settings)
        if self._joint is not None and not self._joint.has_leftovers(accesses[0].connection, topics, self._epochs):
            return
        deadline = Deadline.after(_SECONDS, self._clock)
        while True:
            try:
                end_leftovers(topics, self._epochs, accesses, self._on_end)
            except Retriable as error:
                self.trouble = str(error)
                if deadline.expired or self._closing.wait(_PAUSE_S):
                    raise
            else:
                self.trouble = ""
                return

    def close(self) -> None:
        self._closing.set()
        self._pool.shutdown(wait=False, cancel_futures=True)


TRANSACTION_TIMED_OUT = "TRANSACTION_TIMED_OUT"
"""The code of such an error."""

_REMEDIES = (
    "(1) tune the producer for throughput: producer.override.batch.size, producer.override.linger.ms, "
    "producer.override.compression.type; "
    "(2) raise producer.override.transaction.timeout.ms, up to the broker's transaction.max.timeout.ms; "
    "(3) with transaction.boundary=interval, lower transaction.boundary.interval.ms; "
    "(4) set transaction.boundary=poll"
)


@contextmanager
def timeouts_explained(open_s: Callable[[], float], timeout_ms: int) -> Iterator[None]:
    """Add this code and the remedies to an error that the block raises, if the open transaction is too old.

    open_s: returns the age of the open transaction, 0 if there is none. The error keeps its type: after a `Fenced`, the
    config topic must still be read.
    """
    try:
        yield
    except (Fenced, Abortable) as error:
        age = open_s()
        if age * 1000 < timeout_ms:
            raise
        raise type(error)(
            f"A transaction was open for {age:.1f} s, its timeout is {timeout_ms / 1000:g} s ({error}). "
            f"Any of these helps: {_REMEDIES}",
            TRANSACTION_TIMED_OUT,
        ) from error


_FRESH_SECONDS: Final = 30.0
_AGAIN_SECONDS: Final = 1.0
_PATIENCE_SECONDS: Final = 5.0
_MOST_TOPICS: Final = 10_000
_LARGEST_RECORD: Final = 1_000_000
"""librdkafka's default of `message.max.bytes`."""


class Admission:
    """The admissions of one run, on the task's thread."""

    def __init__(self, runtime: TaskRuntime, path: RecordPath, producer_settings: Mapping[str, str]) -> None:
        self._clock = runtime.clock
        self._spec = runtime.spec
        self._path = path
        self._redact = runtime.plugin.redact
        self._transforms = runtime.plugin.convert.transforms
        """Whether a record can choose its topic."""
        queue_kb = int(producer_settings.get("queue.buffering.max.kbytes", QUEUE_BYTES // 1024))
        self._most = min(int(producer_settings.get("message.max.bytes", _LARGEST_RECORD)), queue_kb * 1024)
        self._limits: dict[str, tuple[float, TopicLimits]] = {}
        """By topic, with the time until which they hold."""

    def admit(self, records: Sequence[SourceRecord]) -> list[SourceRecord | RecordRefused]:
        """Return for each record what `poll` returns in its place, or why it is refused."""
        outcomes: list[SourceRecord | RecordRefused] = []
        for record in records:
            if not self._transforms:
                self._path.prepare_topic(record.topic)
            try:
                outcomes.append(self._admit(record))
            except RecordRefused as refused:
                outcomes.append(refused)
        return outcomes

    def _admit(self, record: SourceRecord) -> AdmittedRecord:
        ready = self._prepare(record)
        if not ready.columns:
            return AdmittedRecord(record, ready)
        ((produced,),) = (each.records() for each in ready.columns)
        topic = produced[0]
        if self._transforms:
            self._require_topic(topic, produced[3])
        limits = self._limits_of(topic)
        try:
            size = record_bytes(produced)
        except UnicodeEncodeError as error:
            raise RecordRefused("A header's name is not valid text") from error
        check_record(produced, size, limits, self._most, round(self._clock.wall() * 1000))
        return AdmittedRecord(record, ready)

    def _prepare(self, record: SourceRecord) -> PreparedBatch:
        try:
            return self._path.prepare([record])
        except Superseded:
            raise
        except RetriableError as error:
            raise RecordRefused(self._explain(error), again=True) from error
        except FencingError as error:
            if not (self._transforms and isinstance(error, Fatal)):
                raise
            raise RecordRefused(self._explain(error)) from error  # the record has chosen a topic that cannot be created
        except Exception as error:
            again = isinstance(error, OSError | MemoryError)
            raise RecordRefused(self._explain(error), again=again) from error

    def _explain(self, error: Exception) -> str:
        notes = " ".join(getattr(error, "__notes__", ()))
        return self._redact(f"{type(error).__name__}: {error} {notes}".strip())

    def _require_topic(self, topic: str, partition: int) -> None:
        """Raise `RecordRefused` unless the topic and the partition that a transform has chosen are there."""
        try:
            check_name(topic)
        except ConnectorError as error:
            raise RecordRefused(self._explain(error)) from error
        if topic not in self._limits and not find_topic(admin_connection(self._spec), topic, self._deadline()):
            raise RecordRefused(f"The topic {topic} does not exist: create it, or have topic.creation.*", again=True)
        if partition == -1:
            return
        _, partitions = topic_identity(admin_connection(self._spec), topic, self._deadline())
        if partition not in partitions:
            raise RecordRefused(f"The topic {topic} has no partition {partition}")

    def _limits_of(self, topic: str) -> TopicLimits:
        now = self._clock.monotonic()
        until, limits = self._limits.get(topic, (0.0, TopicLimits()))
        if now < until:
            return limits
        try:
            settings = topic_settings(admin_connection(self._spec), topic, self._deadline())
            limits, fresh_s = TopicLimits() if settings is None else TopicLimits.of(settings), _FRESH_SECONDS
        except FencingError:
            fresh_s = _AGAIN_SECONDS  # it is created with its first record, or no broker answers
        if len(self._limits) >= _MOST_TOPICS:
            self._limits.clear()
        self._limits[topic] = (now + fresh_s, limits)
        return limits

    def _deadline(self) -> Deadline:
        return Deadline.after(_PATIENCE_SECONDS, self._clock)
