"""A task's source offsets: where they are stored, prepared (start step 5), read (step 6), and copied."""

from collections.abc import Callable, Sequence
from functools import partial

from ringfence.connectors.api import RecordPosition
from ringfence.connectors.common_settings import OFFSETS_STORAGE_TOPIC
from ringfence.fencing.clock import Clock, Deadline
from ringfence.fencing.errors import Invalid
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.plain_producers import PlainProducer
from ringfence.fencing.offsets.ledger_keys import log_partition_of
from ringfence.fencing.offsets.source_offsets import SourceOffsets
from ringfence.fencing.offsets.stores import OffsetsCopy, OffsetStores, prepare, read_merged, stores_of
from ringfence.fencing.records.writable_topics import TopicAccess
from ringfence.fencing.task.joint_reads import JointReads
from ringfence.fencing.task.task_spec import TaskSpec
from ringfence.fencing.transactions.record_columns import OnWritten, RecordColumns


class Positions:
    """The positions of one transaction, in the order of its records."""

    def __init__(self) -> None:
        self._positions: list[RecordPosition | None] = []
        self._first = 0

    def begin_batch(self, count: int) -> None:
        """The next columns are of a batch with that many records."""
        self._first = len(self._positions)
        self._positions += [None] * count

    def noting(self, columns: RecordColumns) -> Sequence[OnWritten]:
        """Return what notes the position of each of these records."""
        assert columns.rows is not None
        positions = self._positions
        note: Callable[..., None] = partial(_note, positions)
        return [partial(note, self._first + row) for row in columns.rows]

    def take(self) -> list[RecordPosition | None]:
        """Return the transaction's positions, complete once its commit is known, and begin the next transaction."""
        positions, self._positions = self._positions, []
        return positions


def _note(positions: list[RecordPosition | None], row: int, partition: int, offset: int, time_ms: int) -> None:
    if offset >= 0:
        positions[row] = partition, offset, time_ms


_READY_SECONDS = 60.0
_READ_SECONDS = 600.0


class TaskOffsets:
    """The source offsets of one attempt. `topic` is the effective one, which the transactions write. Call `prepare`
    first.
    """

    def __init__(
        self, spec: TaskSpec, clock: Clock, *, transactional: bool = True, joint: JointReads | None = None
    ) -> None:
        """joint: of a process with several attempts. Raises `Invalid` for client settings that cannot be used."""
        own = spec.connector_config.get(OFFSETS_STORAGE_TOPIC, "").strip()
        if own != spec.topics.offsets and (what := TopicAccess(spec.topics).internal(own)):
            raise Invalid(f"{OFFSETS_STORAGE_TOPIC}: {own} is {what}. Name another topic")
        self._spec = spec
        self._clock = clock
        self._joint = joint
        self._snapshots = [] if spec.offsets is None else [spec.offsets]
        self._stores: OffsetStores = stores_of(
            spec.connection,
            spec.topics.offsets,
            spec.worker_settings,
            spec.connector_config,
            transactional=transactional,
        )

    @property
    def topic(self) -> str:
        return self._stores.effective.name

    @property
    def is_workers(self) -> bool:
        """Whether that is the worker's topic, by the settings alone: it exists."""
        return self._stores.own is None

    @property
    def reading(self) -> Connection:
        """The connection with which the effective topic is read."""
        return self._stores.effective.reading

    def prepare(self) -> None:
        """Step 5: make sure that the connector's own topic exists and is compacted. Raises `Retriable` or `Fatal`."""
        self._stores = prepare(self._stores, self._spec.worker_settings, Deadline.after(_READY_SECONDS, self._clock))

    def read(self, give_up: Callable[[], bool], report: Callable[[str], None] = lambda _text: None) -> SourceOffsets:
        """Step 6: read both topics to the end, the connector's own first. report: called with messages about the
        progress.
        """
        limit = Deadline.after(_READ_SECONDS, self._clock)
        offsets = self._read_jointly(limit, give_up) or read_merged(
            self._stores, self._spec.task.connector, limit, give_up, snapshots=self._snapshots, report=report
        )
        # A task may read again days later, after other tasks have written millions of records.
        self._snapshots = [each.snapshot() for each in (offsets, offsets.gaps) if each is not None]
        return offsets

    def _read_jointly(self, limit: Deadline, give_up: Callable[[], bool]) -> SourceOffsets | None:
        """Read with the process's other attempts; None where that is not possible."""
        if self._joint is None or self._stores.own is not None or len(self._snapshots) != 1:
            return None
        return self._joint.read_offsets(self.reading, self.topic, self._snapshots[0], give_up, limit)

    def copy(self, offsets: SourceOffsets, report: Callable[[str], None]) -> OffsetsCopy | None:
        """Return a copy to the worker's topic, with the worker's credentials; None if that is the effective topic."""
        if offsets.gaps is None:
            return None
        worker = self._stores.worker
        return OffsetsCopy(
            lambda: PlainProducer(worker.reading, log_partition_of), worker.name, offsets.gaps, report, self._clock
        )
