"""Where a connector wants its transactions to end (`transaction.boundary=connector`; KIP-618, `TransactionContext`).

The plugin makes requests, and the poll loop takes them with the batch that they refer to. Contradictory requests raise
an error in the poll loop, not in the plugin, which might ignore it.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from ringfence.connectors.api import ConnectorError, RecordBatch, SourceRecord


class Ending(StrEnum):
    """How a transaction ends."""

    COMMIT = "commit"
    ABORT = "abort"


@dataclass(frozen=True, slots=True)
class BatchPart:
    """Records for the open transaction, and how it ends after the last of them; None leaves it open."""

    batch: Sequence[SourceRecord] | RecordBatch | None
    ending: Ending | None = None


class RequestedEndings:
    """The framework's `TransactionContext` of one plugin instance. The plugin may call it from any thread.

    Records are compared by identity, so equal records are not confused.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._batch: set[Ending] = set()
        self._records: dict[int, tuple[SourceRecord, set[Ending]]] = {}  # keeps records alive: no id is reused

    def commit_transaction(self, record: SourceRecord | None = None) -> None:
        """See `connectors.api.TransactionContext`."""
        self._ask(Ending.COMMIT, record)

    def abort_transaction(self, record: SourceRecord | None = None) -> None:
        """See `connectors.api.TransactionContext`."""
        self._ask(Ending.ABORT, record)

    def _ask(self, ending: Ending, record: SourceRecord | None) -> None:
        if record is not None and not isinstance(record, SourceRecord):
            raise TypeError(f"{ending}_transaction: name a SourceRecord, or nothing for the next batch, not {record!r}")
        with self._lock:
            if record is None:
                self._batch.add(ending)
            else:
                self._records.setdefault(id(record), (record, set()))[1].add(ending)

    def parts(self, batch: Sequence[SourceRecord] | RecordBatch) -> list[BatchPart]:
        """Return the batch, split after each named record. An empty batch can still end a transaction.

        Raises `ConnectorError` for contradictory requests, before anything of the batch is sent.
        """
        with self._lock:
            last = self._of_the_batch()
            if isinstance(batch, RecordBatch) or not self._records:
                return [BatchPart(batch, last)]
            parts: list[BatchPart] = []
            start = 0
            for end, record in enumerate(batch, 1):
                if (entry := self._records.pop(id(record), None)) is not None:
                    parts.append(BatchPart(batch[start:end], _only(entry[1], f"the record {record!r}")))
                    start = end
            if last is not None or start < len(batch):
                parts.append(BatchPart(batch[start:], last))
            return parts

    def holds(self) -> bool:
        """Return whether the transaction must stay open, although `transaction.boundary` would end it here."""
        return False

    def at_the_end(self) -> Ending | None:
        """Return the request for a next batch that never comes, because the task stops or pauses."""
        with self._lock:
            return self._of_the_batch()

    def _of_the_batch(self) -> Ending | None:
        endings, self._batch = self._batch, set()
        return _only(endings, "the same batch")


def _only(endings: set[Ending], what: str) -> Ending | None:
    if len(endings) > 1:
        raise ConnectorError(
            f"The connector asked for both commit and abort of the transaction of {what}. This is an error in the "
            "connector: nothing of the open transaction is visible. Mend it, or use transaction.boundary=poll"
        )
    return next(iter(endings), None)
