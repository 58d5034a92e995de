"""The context that the framework gives a running plugin."""

from collections.abc import Callable, Mapping, Sequence

from ringfence.connectors.api import (
    ConnectorError,
    Converters,
    Endpoint,
    GroupInput,
    OffsetReader,
    RecordRefused,
    ShareInput,
    Signal,
    SourceRecord,
    TransactionContext,
)
from ringfence.connectors.api.fetching import BatchReader
from ringfence.fencing.modes import Mode
from ringfence.fencing.offsets.source_offsets import SourceOffsets
from ringfence.fencing.task.config_view import DesiredState
from ringfence.fencing.task.group_source import no_groups
from ringfence.fencing.task.plugin_metrics import Gauges
from ringfence.fencing.task.runtime import TaskRuntime
from ringfence.fencing.task.share_group_input import no_share_groups

_GO_ON = frozenset({DesiredState.RUN})


Admit = Callable[[Sequence[SourceRecord]], Sequence[SourceRecord | RecordRefused]]


def no_admission(records: Sequence[SourceRecord]) -> Sequence[SourceRecord | RecordRefused]:
    """Refuse to admit: without transactions nobody is told when a record is there."""
    raise ConnectorError(
        "Records can be admitted only with transactions: set exactly.once.source.support=enabled on the workers"
    )


def no_partitions(topic: str) -> int:
    """Refuse to count: nobody encodes batches here."""
    raise ConnectorError(f"The partitions of {topic} are counted only for encoded batches")


def no_reading(settings: Mapping[str, str], isolation: str) -> BatchReader:
    """Refuse to read record batches: nobody writes them as they are here."""
    raise ConnectorError("Record batches are read only where they can be written as they are")


class TaskContext:
    """The framework's `SourceTaskContext`."""

    def __init__(
        self,
        runtime: TaskRuntime,
        offsets: SourceOffsets,
        due_in: Callable[[], float],
        transaction_context: TransactionContext | None,
        join: Callable[..., GroupInput] = no_groups,
        join_share: Callable[..., ShareInput] = no_share_groups,
        *,
        read_offsets: Callable[[], OffsetReader],
        encoded_batch_bytes: int = 0,
        count_partitions: Callable[[str], int] = no_partitions,
        read_batches: Callable[[Mapping[str, str], str], BatchReader] = no_reading,
        admit: Admit = no_admission,
    ) -> None:
        """due_in: returns the seconds until the open transaction must be committed; a wait ends by then.

        encoded_batch_bytes: of the largest `EncodedBatch`, 0 if `poll` must not return any.
        """
        self._runtime = runtime
        self._offsets = offsets
        self._due_in = due_in
        self._transaction_context = transaction_context
        self._join = join
        self._join_share = join_share
        self._read_offsets = read_offsets
        self.encoded_batch_bytes = encoded_batch_bytes
        self.count_partitions = count_partitions
        self.read_batches = read_batches
        self.admit = admit

    @property
    def config(self) -> Mapping[str, str]:
        return self._runtime.plugin.config

    @property
    def offset_reader(self) -> OffsetReader:
        return self._offsets

    def read_offsets(self) -> OffsetReader:
        return self._read_offsets()

    @property
    def transaction_context(self) -> TransactionContext | None:
        return self._transaction_context

    @property
    def raw_batches(self) -> bool:
        return self._runtime.plugin.convert.raw

    @property
    def converters(self) -> Converters | None:
        return self._runtime.plugin.convert.converters

    @property
    def metrics(self) -> Gauges:
        return self._runtime.report.gauges

    @property
    def signals(self) -> Sequence[Signal]:
        return self._runtime.view.signals

    def join_group(
        self,
        group: str,
        topics: Sequence[str],
        *,
        session_timeout_ms: int,
        first: Mapping[tuple[str, int], int] | None = None,
    ) -> GroupInput:
        return self._join(group, topics, session_timeout_ms=session_timeout_ms, first=first)

    def join_share_group(
        self,
        group: str | None,
        topics: Sequence[str],
        settings: Mapping[str, str],
        *,
        cluster: Mapping[str, str] | None = None,
    ) -> ShareInput:
        return self._join_share(group, topics, settings, cluster=cluster)

    def announce_endpoint(self, endpoint: Endpoint) -> None:
        if self._runtime.spec.mode is not Mode.ENABLED:
            raise ConnectorError(
                "Requests can be answered once they are committed only with transactions: set "
                "exactly.once.source.support=enabled on the workers"
            )
        self._runtime.report.endpoint = endpoint

    def request_task_reconfiguration(self) -> None:
        self._runtime.report.request_task_reconfiguration()

    def wait(self, seconds: float) -> bool:
        """Also returns (False) when the open transaction is due, so that `poll` returns and it can be committed."""
        verdict = self._runtime.view.wait_while(_GO_ON, min(seconds, max(0.0, self._due_in())))
        return verdict is not DesiredState.RUN
