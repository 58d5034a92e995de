"""Which source offsets may be written where there are no transactions: those behind which nothing is missing. Pure.

Records go out in runs: consecutive records of one source partition. A run is done when the broker has acknowledged each
of its records, and none failed. In each source partition the runs count in order: one that is not done holds back the
offsets of all later ones, however long those have been acknowledged. Other source partitions do not wait for it.
"""

from collections import deque
from collections.abc import Sequence, Set

from ringfence.connectors.api import SourceRecord
from ringfence.fencing.errors import FencingError
from ringfence.fencing.offsets.source_offsets import Offset, Partition, canonical

Move = tuple[Partition, Offset | None]
"""A source partition, and its new offset."""


class SubmittedBatch:
    """Records under way, and the source offset that stands behind the last of them."""

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
        """The broker's answer for one record. One that failed is waited for in vain, and so is its run."""
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
        """Records that are not acknowledged."""
        self.failure: FencingError | None = None
        """Why a record will never be acknowledged; None while nothing is lost."""

    def begin(
        self, partition: Partition, offset: Offset | None, waiting: int, records: Sequence[SourceRecord] = ()
    ) -> SubmittedBatch:
        """The next run, in the plugin's order.

        waiting: how many acknowledgements are due, 0 where transforms dropped all; records: for the plugin.
        """
        run = SubmittedBatch(self, partition, offset, waiting, records)
        self._runs.setdefault(canonical(partition), deque()).append(run)
        self.waiting += waiting
        return run

    def advance(self) -> list[SubmittedBatch]:
        """Runs that are done and have nothing before them that is not; each is returned once."""
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
        """The newest offset of each source partition that advanced since it was last taken."""
        taken = list(self._newest.values())
        self._newest.clear()
        return taken

    def put_back(self, offsets: Sequence[Move]) -> None:
        """These could not be written: they are due again, unless newer ones are."""
        for partition, offset in offsets:
            self._newest.setdefault(canonical(partition), (partition, offset))
