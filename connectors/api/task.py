"""The task half of a connector: it reads the source. One instance lives for one attempt of one task."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, Protocol

from ringfence.connectors.api.endpoints import Endpoint
from ringfence.connectors.api.metrics import SourceMetrics
from ringfence.connectors.api.offsets import OffsetReader
from ringfence.connectors.api.records import RecordBatch, SourceRecord
from ringfence.connectors.api.signals import Signal


class TransactionContext(Protocol):
    """Lets a task define transactions (`transaction.boundary=connector`; KIP-618, "Transaction context").

    With it nothing is committed unless the task asks. Records are told apart by identity: name the very object that
    `poll` returns. A request outlasts polls that return None; an empty list is a batch and ends a transaction. Asking
    for commit and abort of the same record or batch fails the task. What was not asked for when the task stops or
    pauses is aborted and read again, by a new instance.
    """

    def commit_transaction(self, record: SourceRecord | None = None) -> None:
        """Commit after the next batch that `poll` returns, or right after the given record."""
        ...

    def abort_transaction(self, record: SourceRecord | None = None) -> None:
        """Abort with the next batch, or with the given record as the last one: these records never become visible.

        Their source offsets are committed all the same, so they are not read again.
        """
        ...


class InputRecord(Protocol):
    """One committed record that a consumer group delivered. `timestamp_ms`: -1 where the broker knows none."""

    @property
    def topic(self) -> str: ...

    @property
    def partition(self) -> int: ...

    @property
    def offset(self) -> int: ...

    @property
    def key(self) -> bytes | None: ...

    @property
    def value(self) -> bytes | None: ...

    @property
    def headers(self) -> Sequence[tuple[str, bytes | None]]: ...

    @property
    def timestamp_ms(self) -> int: ...


class GroupInput(Protocol):
    """A membership in a consumer group of the cluster that the task writes to (KIP-447)."""

    def poll(self, seconds: float, limit: int) -> Sequence[InputRecord]:
        """At most `limit` records of the partitions that are this member's now; empty after `seconds` without any.

        Call it only in the task's `poll`, and only when all that it gave before was returned: a rebalance commits
        inside it what was returned so far, and the partitions may be others' afterwards.
        """
        ...


class ShareRecord(InputRecord, Protocol):
    """A record that a share group delivered."""

    @property
    def delivery_count(self) -> int:
        """How often the broker says that it has delivered the record, 0 where the sweep has found it. A hint: the
        broker forgets it when it fails."""
        ...


class ShareInput(Protocol):
    """A membership in a share group (KIP-932): many tasks read one partition, without any order between them.

    Records that `poll` gave are committed with what the task's own `poll` returns next, each of them once for all tasks
    of the connector; that they lead to no record, or to several, is the task's affair.
    """

    def poll(self, seconds: float, limit: int) -> Sequence[ShareRecord]:
        """At most `limit` records; empty after `seconds` without any, and sometimes earlier.

        Call it once in each of the task's `poll`s, and return what becomes of all its records from that very `poll`.
        """
        ...

    def accept(self, record: ShareRecord) -> None:
        """The record is done with the transaction of this `poll`; so is every one of which nothing else is said."""
        ...

    def release(self, record: ShareRecord) -> None:
        """Give the record back, now or until the `poll` returns: some task gets it again. Return nothing of it."""
        ...

    def reject(self, record: ShareRecord) -> None:
        """The record is done, and nothing comes of it: no task gets it again."""
        ...


RecordPosition = tuple[int, int, int]
"""Partition, offset and timestamp (ms since the epoch) of a record in Kafka."""


class SourceTaskContext(Protocol):
    """What the framework offers a running task."""

    @property
    def config(self) -> Mapping[str, str]:
        """The task's configuration, placeholders resolved."""
        ...

    @property
    def offset_reader(self) -> OffsetReader:
        """Committed source offsets, as they stood when the task started."""
        ...

    def read_offsets(self) -> OffsetReader:
        """Committed source offsets of all the connector's tasks, as they stand now.

        For tasks that wait for each other's progress. It reads the offsets topic, so do not call it for each poll.
        """
        ...

    @property
    def transaction_context(self) -> TransactionContext | None:
        """None unless `transaction.boundary=connector`."""
        ...

    @property
    def raw_batches(self) -> bool:
        """True where `RecordBatch` is legal: converters and transforms leave bytes as they are."""
        ...

    @property
    def metrics(self) -> SourceMetrics:
        """What the task measures itself, for pages, `/metrics` and alerts."""
        ...

    @property
    def signals(self) -> Sequence[Signal]:
        """The newest signals that people have sent to the connector, oldest first, as they stand now.

        Each stays for a while, so carry out those whose number is larger than the newest that was, and commit that
        number in a source offset. Only the platform sends any: to PostgresSource, for its incremental snapshots.
        """
        ...

    def join_group(
        self,
        group: str,
        topics: Sequence[str],
        *,
        session_timeout_ms: int,
        first: Mapping[tuple[str, int], int] | None = None,
    ) -> GroupInput:
        """Read these topics as a member of a consumer group; the group's offsets are committed in the task's
        transactions, in place of source offsets. Partitions move between the members by themselves.

        Source partitions have `topic` and `partition` then, source offsets `offset` (the last record's). first: where
        to begin partitions that the group has no offset of, else at their beginning. Call it once, in `start`. Raises
        `ConnectorError` on a worker that is not exactly once.
        """
        ...

    def join_share_group(
        self,
        group: str | None,
        topics: Sequence[str],
        settings: Mapping[str, str],
        *,
        cluster: Mapping[str, str] | None = None,
    ) -> ShareInput:
        """Read these topics as a member of a share group, each record committed once for all tasks of the connector.

        group: None takes the connector's own; no two connectors may read one. settings: the connector's
        configuration, of which those under `share.` count (`connectors.kafka_settings.share_group`). cluster: the
        client settings of the cluster to read from, None for the one that the task writes to. Source partitions and
        offsets of the task's records are only told then, in dead letters for example: the ledger counts. Call it once,
        in `start`. Needs `transaction.boundary=poll`. Raises `ConnectorError` on a worker that is not exactly once.
        """
        ...

    def announce_endpoint(self, endpoint: Endpoint) -> None:
        """Tell web processes where this task listens, from when it is RUNNING until it pauses or ends.

        Call it in `start`. Raises `ConnectorError` on a worker that is not exactly once: what came in must be committed
        before it is answered.
        """
        ...

    def request_task_reconfiguration(self) -> None:
        """Have the connector make its task configurations again, from the source offsets that are committed by then.

        For a task whose source partitions are complete: it has committed offsets that say so, and the connector leaves
        these partitions out of `task_configs`. The offsets stay, and the task is not started again. Call it in
        `commit`, or in `poll` where nothing is open: before, the connector would not see these offsets. Nothing changes
        where the task configurations are the same.
        """
        ...

    def wait(self, seconds: float) -> bool:
        """Sleep for at most `seconds`; true as soon as the task shall stop. Use it in place of `time.sleep`."""
        ...


class SourceTask(ABC):
    """Reads one share of the source. All methods are called on one thread, one after another.

    Life of an instance: `start`, then `poll` again and again, with `commit_record` and `commit` after each committed
    transaction, then `stop`. After an abort that the plugin did not ask for, the instance is stopped and a new one
    starts from the committed offsets: nothing that an instance remembers can be rewound.
    """

    version: ClassVar[str | None] = None
    """Shown in the task's status; usually the connector's."""
    context: SourceTaskContext
    """Set by the framework before `start`."""

    @abstractmethod
    def start(self, config: Mapping[str, str]) -> None:
        """Open the source at the position that `self.context.offset_reader` gives for its source partitions."""

    @abstractmethod
    def poll(self) -> Sequence[SourceRecord] | RecordBatch | None:
        """The next records, or None (or nothing) where there are none just now.

        Return within about a second; to wait for the source use `self.context.wait`. Raise `RetriableError` for a
        call worth repeating, anything else fails the task.
        """

    wants_positions = False
    """Whether `note_positions` is called; read after `start`. Each record then costs a microsecond more."""

    def note_positions(self, positions: Sequence[RecordPosition | None]) -> None:  # noqa: B027 - optional to override
        """Called before `commit` with where each record of the transaction is, in the order of the polls; without those
        that were dropped, with dead letters. None where the broker did not say.
        """

    def commit_record(self, record: SourceRecord) -> None:  # noqa: B027 - optional to override
        """Called for each record after its source offset was committed: also for those that a transform dropped or the
        task itself aborted. Not for records of a `RecordBatch`.
        """

    def commit(self) -> None:  # noqa: B027 - optional to override
        """Called after each commit: all that `poll` returned before is in Kafka. May be missed in a crash."""

    def stop(self) -> None:  # noqa: B027 - optional to override
        """Free what `start` opened. Called once, also after a failed `start`."""
