"""Samples of an attempt's transactions, which its reports carry to a worker that traces them.

Samples are the attempt's first committed transaction, each that failed or was aborted, each with a record whose trace
context (`traceparent`) is sampled, and of the others one in ten seconds; between two reports at most `MOST`. The search
for contexts has a limit per second, too, so hundreds of transactions a second cost little. It decides nothing.
"""

import re
import threading
from collections.abc import Iterator, Sequence
from typing import Final

from ringfence.connectors.api.records import EncodedBatch, EncodedBatches
from ringfence.fencing.clock import Clock
from ringfence.fencing.records.prepared_batch import PreparedBatch
from ringfence.fencing.request_context import TRACEPARENT, read_trace
from ringfence.fencing.transactions.compression import BY_NUMBER

COMMITTED: Final = "committed"
ABORTED: Final = "aborted"
FAILED: Final = "failed"
UNKNOWN: Final = "unknown"
"""Its commit was not answered."""

MOST: Final = 16
MOST_CONTEXTS: Final = 16
"""Of one transaction; the others' records are in it without a link."""
_SAMPLED: Final = 1
"""Of a trace context's flags."""
_EVERY_S: Final = 10.0
_LOOK_EVERY_S: Final = 1.0
_MOST_HEADERS: Final = 2_000
_MOST_BYTES: Final = 256 * 1024
_IN_BATCH: Final = re.compile(rb"\x16traceparent\x6e([0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2})")
"""A header as a record batch has it, each string after its length."""


class TracedTransactions:
    """Used on the task's thread, but for `note_answer` and `take`."""

    def __init__(self, clock: Clock, request: str = "") -> None:
        """request: the trace context of the request that led to the attempt."""
        self._clock = clock
        self._request = request
        self._lock = threading.Lock()
        self._samples: list[dict[str, object]] = []
        self._contexts: dict[str, None] = {}
        self._identity = (-1, -1)
        self._began = self._commit_began = self._answered = 0.0
        self._records = 0
        self._is_first = True
        self._sampled_at = self._looked_at = clock.monotonic()
        self._headers_left, self._bytes_left = _MOST_HEADERS, _MOST_BYTES

    def begin(self, producer_id: int, epoch: int) -> None:
        self._identity = producer_id, epoch
        self._began, self._commit_began, self._answered = self._clock.wall(), 0.0, 0.0
        self._records = 0
        self._contexts.clear()

    def look(self, ready: PreparedBatch) -> None:
        """Collect the trace contexts of a batch of the open transaction."""
        now = self._clock.monotonic()
        if now - self._looked_at >= _LOOK_EVERY_S:
            self._looked_at, self._headers_left, self._bytes_left = now, _MOST_HEADERS, _MOST_BYTES
        for context in self._find_contexts(ready):
            if int(context[-2:], 16) & _SAMPLED:
                self._contexts[context] = None
                if len(self._contexts) >= MOST_CONTEXTS:
                    return

    def _find_contexts(self, ready: PreparedBatch) -> Iterator[str]:
        if isinstance(ready.batch, EncodedBatches):
            yield from self._find_in_batches(ready.batch.batches)
        for columns in ready.columns:
            for headers in columns.headers or ():
                if self._headers_left <= 0:
                    return
                self._headers_left -= 1 + len(headers or ())
                for name, value in headers or ():
                    if name == TRACEPARENT and value and (context := read_trace(value.decode("latin-1"))):
                        yield context

    def _find_in_batches(self, batches: Sequence[EncodedBatch]) -> Iterator[str]:
        for batch in batches:
            if self._bytes_left <= 0:
                return
            self._bytes_left -= len(batch.data)
            for match in _IN_BATCH.finditer(_uncompress(batch)):
                if context := read_trace(match[1].decode()):
                    yield context

    def begin_commit(self, records: int) -> None:
        self._records = records
        self._commit_began = self._clock.wall()

    def note_answer(self) -> None:
        """Note that the commit has ended, which the task's thread may see much later."""
        self._answered = self._clock.wall()

    def end(self, outcome: str) -> None:
        """Decide whether the transaction is a sample."""
        if not self._began:
            return
        now = self._clock.monotonic()
        is_first = self._is_first and outcome == COMMITTED
        if is_first or self._contexts or outcome != COMMITTED or now - self._sampled_at >= _EVERY_S:
            self._sample(outcome, is_first=is_first)
            self._sampled_at = now
            self._is_first &= outcome != COMMITTED
        self._began = 0.0

    def _sample(self, outcome: str, *, is_first: bool) -> None:
        contexts = [*self._contexts]
        parent = next(iter(contexts), self._request if is_first else "")
        sample: dict[str, object] = {
            "outcome": outcome,
            "began_ms": int(self._began * 1000),
            "commit_ms": int(self._commit_began * 1000),
            "ended_ms": int((self._answered or self._clock.wall()) * 1000),
            "records": self._records,
            "producer_id": self._identity[0],
            "epoch": self._identity[1],
            "parent": parent,
            "links": [each for each in (*contexts, self._request) if each and each != parent],
        }
        with self._lock:
            if len(self._samples) < MOST:
                self._samples.append(sample)

    def take(self) -> list[dict[str, object]]:
        """Return what is to be reported, and begin again."""
        with self._lock:
            samples, self._samples = self._samples, []
        return samples


def _uncompress(batch: EncodedBatch) -> bytes | memoryview:
    if not batch.codec:
        return batch.data
    try:
        return BY_NUMBER[batch.codec].decompress(bytes(batch.data))
    except Exception:  # noqa: BLE001 - a codec's: the broker will refuse the batch
        return b""
