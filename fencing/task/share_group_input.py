"""What a task needs to read a share group: the ledger, the settings, and how it fences other tasks."""

from collections.abc import Callable, Mapping, Sequence

from ringfence.connectors.api import ConnectorError, ShareInput
from ringfence.connectors.sdk.kafka_settings.java_names import servers
from ringfence.connectors.sdk.kafka_settings.share_group import group_of
from ringfence.fencing.clock import Clock, Deadline
from ringfence.fencing.ids import TaskId, task_transactional_id
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.fencer import Fencer
from ringfence.fencing.offsets.source_offsets import SourceOffsets
from ringfence.fencing.share.ledger_tail import LedgerTail
from ringfence.fencing.share.offset_ranges import LockedRanges
from ringfence.fencing.share.settings import ShareSettings
from ringfence.fencing.share.share_group_source import ShareSource
from ringfence.fencing.task.boundaries import Boundaries, Boundary
from ringfence.fencing.task.clients import fencing_connection, reading_connection
from ringfence.fencing.task.task_offsets import TaskOffsets
from ringfence.fencing.task.task_spec import TaskSpec
from ringfence.fencing.topics.sweep_requests import SweepRequestRecord

_RECORDS = 2000
_SERVERS = "bootstrap.servers"


class ShareGroupMembership:
    """The membership of an attempt in a share group, which lasts over its runs."""

    def __init__(
        self,
        spec: TaskSpec,
        boundaries: Boundaries,
        clock: Clock,
        slots: Callable[[], int],
        stopping: Callable[[], bool],
        sweep_request: Callable[[], SweepRequestRecord | None],
    ) -> None:
        self._spec = spec
        self._boundaries = boundaries
        self._clock = clock
        self._slots = slots
        self._stopping = stopping
        self._sweep_request = sweep_request
        self._source: ShareSource | None = None
        self._tail: LedgerTail | None = None

    def join(
        self,
        task_offsets: TaskOffsets,
        offsets: SourceOffsets,
        group: str | None,
        topics: Sequence[str],
        settings: Mapping[str, str],
        cluster: Mapping[str, str] | None,
    ) -> ShareSource:
        """offsets: the committed offsets, read after this run's init. Raises `ConnectorError`, `FencingError`."""
        if self._boundaries.kind is not Boundary.POLL:
            raise ConnectorError(
                "A task that reads a share group commits each batch, as other tasks wait for its records: set "
                "transaction.boundary=poll"
            )
        tail = self._follow(task_offsets, offsets)
        if self._source is not None:
            self._source.restart(tail)
            return self._source
        spec = self._spec
        self._source = ShareSource(
            spec.task.connector,
            spec.task.task,
            self._input(cluster),
            group_of(spec.group_id, spec.task.connector, group),
            topics,
            ShareSettings.of(settings),
            tail,
            client_id=spec.transactional_id,
            limit=int(settings.get("batch.size") or _RECORDS),
            slots=self._slots,
            fence=self._fence,
            stopping=self._stopping,
            sweep_request=self._sweep_request,
            clock=self._clock,
        )
        return self._source

    def _follow(self, task_offsets: TaskOffsets, offsets: SourceOffsets) -> LedgerTail:
        """Return the ledger that is followed already, or a new one if the topic has changed or can no longer be
        followed.
        """
        if self._tail is not None and (self._tail.broken or self._tail.topic_id != offsets.topic_id):
            self._tail.close()
            self._tail = None
        if self._tail is None:
            self._tail = LedgerTail(task_offsets.reading, task_offsets.topic, self._spec.task.connector, offsets)
        return self._tail

    def _input(self, cluster: Mapping[str, str] | None) -> Connection:
        if cluster is None:
            return reading_connection(self._spec)
        others = {name: value for name, value in cluster.items() if name != _SERVERS}
        where = cluster[_SERVERS]
        guarded = servers(where) != servers(self._spec.connection.bootstrap)
        return Connection(where, others, self._spec.connection.client_id, guarded=guarded)

    def _fence(self, slots: Sequence[int], deadline: Deadline) -> None:
        spec = self._spec
        ids = [task_transactional_id(spec.group_id, TaskId(spec.task.connector, slot)) for slot in slots]
        with Fencer(fencing_connection(spec)) as fencer:
            fencer.fence(ids, deadline)

    @property
    def locked_ranges(self) -> LockedRanges:
        """The records that the task holds now. Thread-safe."""
        return () if self._source is None else self._source.locked_ranges

    def close(self) -> None:
        if self._source is not None:
            self._source.close()
        if self._tail is not None:
            self._tail.close()


def no_share_groups(
    group: str | None, topics: Sequence[str], settings: Mapping[str, str], *, cluster: Mapping[str, str] | None = None
) -> ShareInput:
    """Refuse to join, for tasks without transactions."""
    raise ConnectorError(
        "Reading topics as a member of a share group needs transactions, which keep its ledger: set "
        "exactly.once.source.support=enabled on the workers"
    )
