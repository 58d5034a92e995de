"""The copy of committed offsets in the worker's topic, for a connector with an offsets topic of its own (KIP-618).

With the copy, the connector can return to the worker's topic, and the cluster to a release that only has the worker's
topic. The transaction is what counts: a copy that cannot be written is reported and retried, and the task continues. A
tombstone is written to the worker's topic first, and if that fails nothing is committed: otherwise the merged view
would bring the deleted offset back once compaction has dropped the tombstone in the connector's topic.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from ringfence.fencing.backoff import Backoff
from ringfence.fencing.clock import SYSTEM_CLOCK, Clock, Deadline
from ringfence.fencing.errors import FencingError
from ringfence.fencing.offsets.source_offsets import Offset, Partition, SourceOffsets, canonical, encode_value

log = logging.getLogger(__name__)

Moves = Sequence[tuple[Partition, Offset | None]]
Headers = Sequence[tuple[str, bytes]]

_WRITE_SECONDS = 30.0
_BACKOFF = Backoff(0.25, 30)
_LAST_SECONDS = 5.0


class PlainWriter(Protocol):
    """What a copy needs of `fencing.kafka.plain_producer.PlainProducer`."""

    def write(
        self,
        topic: str,
        records: Sequence[tuple[bytes, bytes | None]],
        deadline: Deadline,
        last: Headers = (),
    ) -> None: ...

    def close(self) -> None: ...


class OffsetsCopy:
    """Copies the newest offset of each source partition of one task, on its own thread, which ends with `close`."""

    def __init__(
        self,
        new_writer: Callable[[], PlainWriter],
        topic: str,
        offsets: SourceOffsets,
        report: Callable[[str], None] = lambda text: None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """offsets: the worker's topic as it was read, for its keys. report: called on the thread, with each error of a
        copy.
        """
        self._new_writer = new_writer
        self._writer = new_writer()
        self._topic = topic
        self._offsets = offsets
        self._report = report
        self._clock = clock
        self._condition = threading.Condition()
        self._writing = threading.Lock()
        self._due: dict[str, tuple[Partition, Offset | None]] = {}
        self._headers: Headers = ()
        self._closed = False
        self._until: Deadline | None = None
        self._tried_last = False
        self._thread = threading.Thread(target=self._run, name="offsets-copy", daemon=True)
        self._thread.start()

    def before(self, moves: Moves) -> None:
        """Write the tombstones of a transaction, before it writes these offsets, and wait for the broker. Raises on
        failure.
        """
        deletions = [(partition, None) for partition, offset in moves if offset is None]
        if not deletions:
            return
        with self._writing:  # what is being written is older: it must not arrive after the tombstone
            with self._condition:
                for partition, _ in deletions:
                    self._due.pop(canonical(partition), None)
            self._write(deletions, Deadline.after(_WRITE_SECONDS, self._clock))

    def after(self, moves: Moves, headers: Headers = ()) -> None:
        """Copy the offsets of a committed transaction, without waiting. headers: of its last offset."""
        with self._condition:
            self._headers = headers
            for partition, offset in moves:
                if offset is not None:
                    self._due[canonical(partition)] = (partition, offset)
            self._condition.notify_all()

    def close(self, seconds: float = _LAST_SECONDS) -> None:
        """Write what is pending, within `seconds`, and end."""
        with self._condition:
            self._closed = True
            self._until = Deadline.after(seconds, self._clock)
            self._condition.notify_all()
        self._thread.join(seconds + 1)

    def _write(self, moves: Moves, deadline: Deadline, headers: Headers = ()) -> None:
        records = [(self._offsets.key_of(partition), encode_value(offset)) for partition, offset in moves]
        try:
            self._writer.write(self._topic, records, deadline, headers)
        except FencingError:
            # What this one still buffers must not arrive after what is written next.
            self._writer.close()
            self._writer = self._new_writer()
            raise

    def _run(self) -> None:
        failures, pause = 0, 0.0
        try:
            while self._wait(pause):
                try:
                    self._copy()
                    failures, pause = 0, 0.0
                except FencingError as error:
                    failures += 1
                    pause = _BACKOFF.pause(failures)
                    log.warning("Offsets were committed, and their copy to %s failed: %s", self._topic, error)
                    self._report(
                        f"Committed offsets could not be copied to {self._topic}: {error}. The task continues, because "
                        f"its own offsets topic has them; the copy is retried in {pause:.1f} s"
                    )
        finally:
            self._writer.close()

    def _wait(self, pause: float) -> bool:
        """Wait until something is pending and the pause is over. False at the end."""
        with self._condition:
            if pause:
                self._condition.wait_for(lambda: self._closed, pause)
            self._condition.wait_for(lambda: self._closed or bool(self._due))
            last, self._tried_last = self._tried_last, self._closed
            return bool(self._due) and not last

    def _copy(self) -> None:
        with self._writing:
            with self._condition:
                due, self._due, headers = self._due, {}, self._headers
                left = self._until.remaining if self._until is not None else _WRITE_SECONDS
            try:
                self._write(list(due.values()), Deadline.after(max(0.01, left), self._clock), headers)
            except FencingError:
                with self._condition:
                    self._due = {**due, **self._due}
                raise
