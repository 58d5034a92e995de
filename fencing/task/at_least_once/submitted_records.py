"""Which source offsets may be written without transactions: those before which no record is missing. Pure.

Records are sent in runs: consecutive records of one source partition. A run is done when the broker has acknowledged
all of its records. The runs of a source partition count in order: one that is not done holds back the offsets of all
later ones, even if those are acknowledged. Other source partitions do not wait for it.
"""

from collections import deque
from collections.abc import Sequence, Set

from ringfence.connectors.api import SourceRecord
from ringfence.fencing.errors import FencingError
from ringfence.fencing.offsets.source_offsets import Offset, Partition, canonical

Move = tuple[Partition, Offset | None]
"""A source partition, and its new offset."""


class SubmittedBatch:
    """Records that are being sent, and the source offset after the last of them."""

    __slots__ = ("_book", "offset", "partition", "records", "topics", "waiting")

    def __init__(
        self,
        book: "SubmittedRecords",
        partition: Partition,
        offset: Offset | None,
        waiting: int,
        records: Sequence[SourceRecord],
    ) -> None:
        self._book = book
        self.partition = partition
        self.offset = offset
        self.waiting = waiting
        self.records = records
        self.topics: Set[str] = frozenset()

    def on_delivery(self, failure: FencingError | None) -> None:
        """Take the broker's answer for one record. After a failure, the run is never done."""
        if failure is None:
            self.waiting -= 1
            self._book.waiting -= 1
        else:
            self._book.failure = self._book.failure or failure


class SubmittedRecords:
    """The runs of one task, from `begin` to the offsets that may be written."""

    def __init__(self) -> None:
        self._runs: dict[str, deque[SubmittedBatch]] = {}
        self._newest: dict[str, Move] = {}
        self.waiting = 0
        """The number of records that are not acknowledged."""
        self.failure: FencingError | None = None
        """Why a record will never be acknowledged; None if none has failed."""

    def begin(
        self, partition: Partition, offset: Offset | None, waiting: int, records: Sequence[SourceRecord] = ()
    ) -> SubmittedBatch:
        """Begin the next run, in the plugin's order.

        waiting: how many acknowledgements are due, 0 if transforms dropped all; records: for the plugin.
        """
        run = SubmittedBatch(self, partition, offset, waiting, records)
        self._runs.setdefault(canonical(partition), deque()).append(run)
        self.waiting += waiting
        return run

    def advance(self) -> list[SubmittedBatch]:
        """Return the runs that are done, and before which all are; each is returned once."""
        done = []
        for name, runs in list(self._runs.items()):
            while runs and not runs[0].waiting:
                run = runs.popleft()
                self._newest[name] = (run.partition, run.offset)
                done.append(run)
            if not runs:
                del self._runs[name]
        return done

    def take(self) -> list[Move]:
        """Return the newest offset of each source partition that has advanced since the last call."""
        moves = list(self._newest.values())
        self._newest.clear()
        return moves

    def put_back(self, offsets: Sequence[Move]) -> None:
        """Make offsets that could not be written pending again, unless there are newer ones."""
        for partition, offset in offsets:
            self._newest.setdefault(canonical(partition), (partition, offset))
