"""The task of a connector: it reads the source. An instance serves one attempt of one task at most.

The framework offers it transactions, committed offsets, metrics, signals of users, and an endpoint to listen at.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple, Protocol

from ringfence.connectors.api.errors import RecordRefused
from ringfence.connectors.api.records import OffsetReader, RecordBatch, SourceRecord


@dataclass(frozen=True, slots=True)
class Endpoint:
    """id: names this listener, since a later one may get its port. secret: both ends prove that they know it; it
    reaches the web processes through the status topic and is never shown.
    """

    id: str
    host: str
    port: int
    secret: str = field(repr=False)


class Gauge(Protocol):
    """A number that can go up and down. Any thread may set it."""

    def set(self, value: float | None) -> None:
        """Set the current value. None, or a number that is not finite, means unknown: no older value is shown."""
        ...


class SourceMetrics(Protocol):
    """A task's own metrics. They appear on the connector's page, in alerts, and as `ringfence_source_<name>` at
    `/metrics`.

    They are reported every few seconds while the task runs. A task can report at most 100.
    """

    def gauge(
        self,
        name: str,
        description: str,
        *,
        unit: str = "",
        labels: Mapping[str, str] | None = None,
        limit: float | None = None,
        remedy: str = "",
    ) -> Gauge:
        """Return the gauge with this name and these labels. A second call returns the same gauge with the new
        description.

        name: lower case letters, digits and `_`. description: one sentence, without a full stop. unit: `bytes`,
        `seconds`, ..., appended to the name at `/metrics` unless it already ends so. labels: at most four, not
        `connector` or `task`. limit: a value above it is a problem, which alert rules of the kind `source-metric`
        report; remedy: what to do then. Raises `ValueError` for an invalid name. Do not use secrets: everybody who may
        see the connector sees all of this.
        """
        ...


class Signal(NamedTuple):
    """number: increases with each signal of a connector; a task that commits it handles each signal once. kind: as the
    connector names it. data: its parameters, as parsed from JSON.
    """

    number: int
    kind: str
    data: Mapping[str, object]


class TransactionContext(Protocol):
    """Lets a task define transactions (`transaction.boundary=connector`; KIP-618, "Transaction context").

    Nothing is committed unless the task asks for it. Records are identified by identity: pass the same object that
    `poll` returns. A request stays in force over polls that return None; an empty list is a batch and ends a
    transaction. To ask for both commit and abort of the same record or batch fails the task. Records that no commit was
    requested for when the task stops or pauses are aborted, and read again by a new instance.
    """

    def commit_transaction(self, record: SourceRecord | None = None) -> None:
        """Commit after the next batch that `poll` returns, or right after the given record."""
        ...

    def abort_transaction(self, record: SourceRecord | None = None) -> None:
        """Abort after the next batch, or after the given record: these records never become visible.

        Their source offsets are still committed, so they are not read again.
        """
        ...


class InputRecord(Protocol):
    """A committed record that a consumer group delivered. `timestamp_ms`: -1 if the broker has none."""

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
        """Return at most `limit` records of the partitions assigned to this member; none after `seconds` without any.

        Call it only in the task's `poll`, and only after you have returned all earlier records: a rebalance inside this
        call commits what was returned so far, and may then assign the partitions to other members.
        """
        ...


class ShareRecord(InputRecord, Protocol):
    """A record that a share group delivered."""

    @property
    def delivery_count(self) -> int:
        """How often the broker says that it has delivered the record; 0 if the sweep found it. It is a hint: a broker
        that fails loses the count."""
        ...


class ShareInput(Protocol):
    """A membership in a share group (KIP-932): many tasks read one partition, in no particular order.

    The records of one `poll` are committed with what the task's own `poll` returns next, each of them once among all
    tasks of the connector. The task may return no record for one of them, or several.
    """

    def poll(self, seconds: float, limit: int) -> Sequence[ShareRecord]:
        """Return at most `limit` records; none after `seconds` without any, and sometimes earlier.

        Call it at most once in each `poll` of the task, and return the results of all its records from that same
        `poll`.
        """
        ...

    def accept(self, record: ShareRecord) -> None:
        """The record is done once the transaction of this `poll` is committed. This is the default."""
        ...

    def release(self, record: ShareRecord) -> None:
        """Give the record back, so that some task gets it again. Do not return results of it. Call it before `poll`
        returns.
        """
        ...

    def reject(self, record: ShareRecord) -> None:
        """The record is done and has no result: no task gets it again."""
        ...


RecordPosition = tuple[int, int, int]
"""Partition, offset and timestamp (ms since the epoch) of a record in Kafka."""


class Converters(Protocol):
    """The converters of a connector, configured; see `connectors.converters`."""

    @property
    def key(self) -> object: ...

    @property
    def value(self) -> object: ...

    @property
    def headers(self) -> object: ...


class SourceTaskContext(Protocol):
    """What the framework offers a running task."""

    @property
    def config(self) -> Mapping[str, str]:
        """The task's configuration, placeholders resolved."""
        ...

    @property
    def offset_reader(self) -> OffsetReader:
        """The committed source offsets, as they were when the task started."""
        ...

    def read_offsets(self) -> OffsetReader:
        """Read the current committed source offsets of all tasks of the connector.

        For tasks that wait for each other's progress. It reads the offsets topic, so do not call it in each poll.
        """
        ...

    @property
    def transaction_context(self) -> TransactionContext | None:
        """None unless `transaction.boundary=connector`."""
        ...

    @property
    def raw_batches(self) -> bool:
        """Whether `RecordBatch` is allowed: converters and transforms do not change the bytes."""
        ...

    @property
    def converters(self) -> Converters | None:
        """The connector's converters, for a task that can return `SerializedRecords`. None if that is not allowed:
        transforms would have to change the records, or it is a preview.
        """
        ...

    @property
    def metrics(self) -> SourceMetrics:
        """The task's own metrics, for pages, `/metrics` and alerts."""
        ...

    @property
    def signals(self) -> Sequence[Signal]:
        """The latest signals that users have sent to the connector, oldest first.

        Each is listed for a while. Handle those whose number is larger than the last one that you handled, and commit
        that number in a source offset. Only PostgresSource gets any, for its incremental snapshots.
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
        """Read these topics as a member of a consumer group. The task's transactions commit the group's offsets in
        place of source offsets; partitions are rebalanced among the members.

        The source partitions then have `topic` and `partition`, and the source offsets have `offset` (of the last
        record). first: where to start in partitions without a committed offset; the default is their beginning. Call
        it once, in `start`. Raises `ConnectorError` on a worker that is not exactly once.
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
        """Read these topics as a member of a share group: each record is committed once among all tasks of the
        connector.

        group: None means the connector's own group; two connectors cannot share one. settings: the connector's
        configuration, of which the keys under `share.` are used (`connectors.kafka_settings.share_group`). cluster:
        the client settings of the cluster to read from, None for the cluster that the task writes to. The ledger
        decides what is done; source partitions and offsets of the task's records are only shown, for example in dead
        letters. Call it once, in `start`. Needs `transaction.boundary=poll`. Raises `ConnectorError` on a worker that
        is not exactly once.
        """
        ...

    def admit(self, records: Sequence[SourceRecord]) -> Sequence[SourceRecord | RecordRefused]:
        """Transform and convert records before the task accepts them, so that none of them can fail it later.

        For a task whose input comes from strangers: it returns the records that it gets from the next `poll`, and tells
        the senders of the others why not. The result has one item for each record: what to return in its place, or why
        it is refused, also if it is too large for its topic. Call it in `poll`. Settings that no record can satisfy,
        such as a topic that the connector may not write to, fail the task as ever.
        """
        ...

    def announce_endpoint(self, endpoint: Endpoint) -> None:
        """Tell the web processes where this task listens, while it is RUNNING.

        Call it in `start`. Raises `ConnectorError` on a worker that is not exactly once: a request is answered only
        after its records are committed.
        """
        ...

    def request_task_reconfiguration(self) -> None:
        """Have the connector make its task configurations again, from the source offsets that are committed by then.

        For a task whose source partitions are complete: it has committed offsets that say so, and the connector leaves
        these partitions out of `task_configs`. The offsets stay, and the task is not started again. Call it in
        `commit`, or in `poll` if no transaction is open: earlier, the connector would not see these offsets. If
        the task configurations are the same, nothing changes.
        """
        ...

    def wait(self, seconds: float) -> bool:
        """Sleep for at most `seconds`, in place of `time.sleep`. Returns True at once when the task must stop."""
        ...


class SourceTask(ABC):
    """Reads one part of the source. All methods are called on one thread, one after another.

    The lifecycle of an instance: `start`, then `poll` repeatedly, with `commit_record` and `commit` after each
    committed transaction, then `stop`. After an abort that the plugin did not request, the instance is stopped and a
    new one starts from the committed offsets, because the state of an instance cannot be rewound.
    """

    version: ClassVar[str | None] = None
    """The version that the task's status shows; usually the connector's."""
    shares_process: ClassVar[bool] = False
    """Whether the task may run as a thread, beside tasks of other connectors in one process, where the administrator
    has chosen so (`task.isolation=shared`). Its class must run no code of users and change nothing of its process.
    """
    context: SourceTaskContext
    """Set by the framework before `start`."""

    @abstractmethod
    def start(self, config: Mapping[str, str]) -> None:
        """Open the source at the position that `self.context.offset_reader` gives for its source partitions."""

    @abstractmethod
    def poll(self) -> Sequence[SourceRecord] | RecordBatch | None:
        """Return the next records; None or an empty list if there are none at present.

        Return within about a second; to wait for the source, use `self.context.wait`. Raise `RetriableError` if the
        call should be repeated; any other exception fails the task.
        """

    has_answered = True
    """Whether a poll without records means that the source has answered and has nothing new: then the task's data is as
    of that poll. It is read after each such poll. Set it to False while the source has not answered yet, such as one
    that is read by a thread of the task's own; an outage then stays one.
    """

    answers_in_part = False
    """Whether the source has answered in a poll without records, but not completely yet, as with one of many pages: an
    outage is over then, although the task's data is not as of that poll. It is read where `has_answered` is False.
    """

    wants_positions = False
    """Whether `note_positions` is called. It is read after `start`, and costs a microsecond for each record."""

    def note_positions(self, positions: Sequence[RecordPosition | None]) -> None:  # noqa: B027 - optional to override
        """Called before `commit` with the position of each record of the transaction, in the order of the polls.
        Dropped records are left out; dead letters are included. None: the broker did not report the position.
        """

    polls_during_commit = False
    """Whether `poll` may be called while the records of earlier polls are being committed: `commit_record` and `commit`
    then come after that poll. It is read after `start`. A task that overrides neither is always polled like that.
    """

    def commit_record(self, record: SourceRecord) -> None:  # noqa: B027 - optional to override
        """Called for each record after its source offset was committed, also if a transform dropped it or the task
        aborted it. Not called for the records of a `RecordBatch`.
        """

    def commit(self) -> None:  # noqa: B027 - optional to override
        """Called after each commit: all that `poll` has returned is in Kafka. A crash may prevent the call."""

    def stop(self) -> None:  # noqa: B027 - optional to override
        """Release what `start` opened. Called once, also after a failed `start`."""
