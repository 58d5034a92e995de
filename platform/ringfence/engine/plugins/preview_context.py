"""What a task sees of the platform while it is previewed: offsets, but no producer."""

import threading
import time
from collections.abc import Mapping, Sequence

from ringfence.connectors.api import (
    ConnectorError,
    Endpoint,
    GroupInput,
    OffsetReader,
    RecordRefused,
    ShareInput,
    Signal,
    SourceRecord,
    TransactionContext,
)
from ringfence.fencing.task.plugin_metrics import Gauges


class PreviewContext:
    """The context of a task in a preview. Nothing reaches Kafka."""

    def __init__(
        self, config: Mapping[str, str], reader: OffsetReader, raw: bool, transactions: TransactionContext | None
    ) -> None:
        self.config = config
        self.offset_reader = reader
        self.raw_batches = raw
        self.converters = None
        self.transaction_context = transactions
        self.metrics = Gauges()
        self.signals: Sequence[Signal] = ()
        self.ends_at = float("inf")
        self._never = threading.Event()

    @property
    def over(self) -> bool:
        return time.monotonic() >= self.ends_at

    def read_offsets(self) -> OffsetReader:
        return self.offset_reader

    def join_group(
        self,
        group: str,
        topics: Sequence[str],
        *,
        session_timeout_ms: int,
        first: Mapping[tuple[str, int], int] | None = None,
    ) -> GroupInput:
        """Refuse: a member would take partitions away from running tasks."""
        raise ConnectorError(
            f"This task reads as a member of the consumer group {group}, and a preview joins no group. Look at the "
            "records of its topics instead."
        )

    def join_share_group(
        self,
        group: str | None,
        topics: Sequence[str],
        settings: Mapping[str, str],
        *,
        cluster: Mapping[str, str] | None = None,
    ) -> ShareInput:
        """Refuse: a member would get records that running tasks wait for."""
        raise ConnectorError(
            "This task reads as a member of a share group, and a preview joins no group. Look at the records of its "
            "topics instead."
        )

    def admit(self, records: Sequence[SourceRecord]) -> Sequence[SourceRecord | RecordRefused]:
        """Admit all: a preview converts what `poll` returns."""
        return records

    def announce_endpoint(self, endpoint: Endpoint) -> None:
        raise ConnectorError("This task waits for incoming requests, but a preview receives none.")

    def request_task_reconfiguration(self) -> None:
        """Do nothing: the tasks of a preview are not reconfigured."""

    def wait(self, seconds: float) -> bool:
        self._never.wait(max(0.0, min(seconds, self.ends_at - time.monotonic())))
        return self.over
