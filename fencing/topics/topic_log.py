"""A topic read from its beginning to a known end, and followed from there: config, status, offsets, events.

"The end" is the read_uncommitted end offset, asked when a reading begins, so after whatever init or fence it must cover
(invariant 6). Nobody's open transaction holds the reading: 1 up to the last stable offset (LSO) a read_committed client
reads, 2 from there to the end the batches are read raw, and each producer's own markers decide
(`fencing.kafka.record_batches`).

Why that misses nothing that matters to a reader who has fenced or initialised the ids whose records it needs:

- The coordinator answers InitProducerId only after the transaction before it is completed. Until then it answers
  CONCURRENT_TRANSACTIONS. Completed means that each partition's leader has written the marker, replicated as with
  acks=all, so that the marker stands before the high watermark.
- So after the init of an id all its transactions have their markers before any end that is asked for then, also one
  whose EndTxn was answered while its markers were still on their way.
- What is open up to that end thus belongs to somebody else, and is left out. If it is committed later, then after this
  reading; whoever needs to know fences or initialises the id itself.

A reader that has not done so sees what was committed, up to markers that are on their way. It may name its own
producer id (`own`): then the reading waits for that one's markers.

Whoever follows a topic (`follow`) does so as a read_committed client. Where somebody's open transaction has held that
one for a second, what is committed behind it is read raw into `ahead`.
"""

import time
from collections.abc import Callable, Iterator

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Fatal, TopicLost
from ringfence.fencing.kafka.admin import Place, end_offsets, offsets_at, topic_identity
from ringfence.fencing.kafka.consumer import Isolation, LogRecord, PartitionReader, record_of
from ringfence.fencing.kafka.settings import Connection
from ringfence.fencing.topics.open_tail import HURRIED_MS, MARKER_SECONDS, OpenTail, Positions, Wanted, late

__all__ = ["PATIENCE_SECONDS", "Isolation", "LogRecord", "TopicLog"]

Told = Callable[[Positions, Positions], None]

PATIENCE_SECONDS = 0.05
"""For topics on which transactions are rare and short."""

_STALL_SECONDS = 2.0
_HELD_SECONDS = 1.0
_AHEAD_SECONDS = 10.0


def _every(_key: bytes | None) -> bool:
    return True


def _untold(_positions: Positions, _ends: Positions) -> None:
    pass


class TopicLog:
    """All partitions of one topic. Not shared between threads."""

    def __init__(
        self,
        connection: Connection,
        topic: str,
        start: Positions | None = None,
        *,
        deadline: Deadline | None = None,
        isolation: Isolation = Isolation.COMMITTED,
        patience_s: float = 0.0,
    ) -> None:
        """`start`: first offset per partition, 0 where none is given. Waits for the topic till `deadline`.

        isolation: UNCOMMITTED for topics that nobody writes in transactions. patience_s: how long a reading waits for
        the LSO before it reads raw: a commit's markers are mostly there within 25 ms.
        """
        self._connection = connection
        self.topic = topic
        self.topic_id, self.partitions = topic_identity(connection, topic, deadline or Deadline.after(30))
        self._isolation = isolation
        self._patience_s = patience_s
        self._positions = {p: (start or {}).get(p, 0) for p in self.partitions}
        self._reader: PartitionReader | None = None  # made by the first `poll`: many logs are read once
        self._closed = False
        self._still: dict[int, tuple[int, float]] = {}
        self._looked: dict[int, int] = {}
        self.ahead: list[LogRecord] = []
        """What the last `catch_up` found committed beyond `positions`, in the order of each partition."""

    @property
    def positions(self) -> dict[int, int]:
        """The next offset per partition; it moves past aborted records and markers, too, and never past the LSO."""
        return dict(self._positions if self._reader is None else self._reader.positions)

    def restart(self, start: Positions | None = None) -> None:
        """Go on from other offsets, 0 where none is given."""
        self._move({p: (start or {}).get(p, 0) for p in self.partitions})

    def _move(self, positions: Positions) -> None:
        self._positions = dict(positions)
        if self._reader is not None:
            self._reader.move(positions)

    def poll(self, timeout: float, limit: int = 500) -> list[LogRecord]:
        """What has come since, in the order of each partition; empty after `timeout` seconds without a record.

        Not before the LSO has passed it: what `ahead` holds comes again here.
        """
        if self._closed:
            raise Fatal(f"The log of topic {self.topic} is closed already")
        if self._reader is None:
            self._reader = PartitionReader(self._connection, self.topic, self._positions, isolation=self._isolation)
        return self._reader.poll(timeout, limit)

    def follow(self, timeout: float, limit: int = 500) -> list[LogRecord]:
        """`poll`; and where an open transaction holds it, `ahead` is what is committed behind that one by now.

        So a caller takes the records and then looks at `ahead`. Raises `Retriable` where a broker does not answer:
        `ahead` is as before then.
        """
        records = self.poll(timeout, limit)
        if not self._is_held():
            return records
        self._still.clear()  # so that this is asked, or tried again, a second later
        looked, deadline = self._still_ends(), Deadline.after(_AHEAD_SECONDS)
        stable = self._stable(looked, deadline)
        if not _has_passed(self.positions, stable):
            return records  # it is not held: there is much to read, and partitions come in turns
        records += self.catch_up(deadline, limit=limit)
        self._looked = looked
        return records

    def _still_ends(self) -> dict[int, int]:
        """The ends of the partitions that stand before them."""
        assert self._reader is not None
        positions = self._reader.positions
        return {p: end for p, end in self._reader.ends().items() if positions[p] < end}

    def _is_held(self) -> bool:
        """Whether some partition has stood still before an end that has not been looked at."""
        if self._isolation is Isolation.UNCOMMITTED:
            return False
        now, positions, behind = time.monotonic(), self.positions, self._still_ends()
        self._still = {
            p: known if (known := self._still.get(p)) and known[0] == positions[p] else (positions[p], now)
            for p in behind
        }
        return any(
            now - since >= _HELD_SECONDS and behind[p] != self._looked.get(p) for p, (_, since) in self._still.items()
        )

    def read_to_end(self, deadline: Deadline, limit: int = 1000) -> Iterator[LogRecord]:
        """Every committed record before the end as it stands now, each once over all calls, in order.

        So anybody's open transaction is waited for: no start may rest on this. Raises `Retriable` where the end is not
        reached in time; the message says how far it got.
        """
        ends = end_offsets(self._connection, self.topic, self.partitions, deadline)
        self._check_identity(deadline)
        yield from self._read_committed(ends, deadline, deadline, lambda: False, limit, _every, _untold)
        if not _has_passed(self.positions, ends):
            raise late(self.topic, self.positions, ends)

    def catch_up(
        self,
        deadline: Deadline,
        give_up: Callable[[], bool] = lambda: False,
        limit: int = 1000,
        *,
        own: int = -1,
        wanted: Wanted = _every,
        ends: Positions | None = None,
        told: Told = _untold,
    ) -> Iterator[LogRecord]:
        """Every committed record up to the LSO or the end as it stands now; then `ahead` holds the rest up to the end.

        `positions` stand at the LSO afterwards, or at the end. Raises `Retriable` where the end is not reached in time:
        the message says how far it got. `give_up` is asked between reads; `ahead` is empty where it says yes. own: a
        producer id whose markers are waited for; wanted: by key, which records are worth a look; ends: where somebody
        has just asked for them; told: called with positions and ends between reads.
        """
        if ends is None:
            ends = end_offsets(self._connection, self.topic, self.partitions, deadline)
            self._check_identity(deadline)
        patience = Deadline.after(self._patience_s)
        yield from self._read_committed(ends, deadline, patience, give_up, limit, wanted, told)
        behind = {p: position for p, position in self.positions.items() if position < ends[p]}
        if not behind or give_up():
            self.ahead = []
            return
        self.ahead = OpenTail(self._connection, self.topic, self.partitions).read(behind, ends, deadline, own, wanted)
        told(ends, ends)

    def _read_committed(
        self,
        ends: Positions,
        deadline: Deadline,
        patience: Deadline,
        give_up: Callable[[], bool],
        limit: int,
        wanted: Wanted,
        told: Told,
    ) -> Iterator[LogRecord]:
        """Up to the ends, or to an LSO before them that does not move any more when `patience` has expired."""
        # A reader of its own: on the one that follows the topic, the broker holds an empty fetch back for half a
        # second, and with it the news that the position has passed the last marker.
        hurried: PartitionReader | None = None
        positions = self.positions
        try:
            while not _has_passed(positions, ends):
                stable = self._stable(ends, deadline)
                if _has_passed(positions, stable):
                    if patience.expired or give_up():
                        return
                    time.sleep(patience.slice(MARKER_SECONDS))
                    continue
                hurried = hurried or self._open_hurried(positions)
                positions = hurried.positions
                stalled = Deadline.after(_STALL_SECONDS)
                while not _has_passed(positions, stable):
                    self._check(positions, ends, deadline)
                    # Where compaction took the last records of a segment, the client waits for them for ever.
                    if give_up() or (stalled.expired and patience.expired):
                        return
                    before = sum(positions.values())
                    for message in hurried.messages(deadline.slice(0.1), limit):
                        if wanted(message.key()):
                            yield record_of(message)
                    told(positions, ends)
                    if sum(positions.values()) > before:
                        stalled = Deadline.after(_STALL_SECONDS)
        finally:
            if hurried is not None:
                self._move(hurried.positions)
                hurried.close()

    def _open_hurried(self, positions: Positions) -> PartitionReader:
        return PartitionReader(
            self._connection,
            self.topic,
            positions,
            isolation=self._isolation,
            fetch_wait_ms=HURRIED_MS,
        )

    def _stable(self, ends: Positions, deadline: Deadline) -> Positions:
        """How far a client of this isolation can read now, at most to the ends."""
        if self._isolation is Isolation.UNCOMMITTED:
            return ends
        stable = offsets_at(self._connection, self.topic, list(ends), Place.STABLE, deadline)
        return {p: min(stable[p], end) for p, end in ends.items()}

    def _check(self, positions: Positions, ends: Positions, deadline: Deadline) -> None:
        if deadline.expired:
            raise late(self.topic, positions, ends)

    def _check_identity(self, deadline: Deadline) -> None:
        """After the end was asked for: the end of another topic of this name would be no end of this one."""
        found, _ = topic_identity(self._connection, self.topic, Deadline.after(deadline.slice(5.0)))
        if found != self.topic_id:
            raise TopicLost(
                f"Topic {self.topic} is another one than before (id {found}, it was {self.topic_id}): nothing that is "
                "read from it now says anything about the cluster"
            )

    def close(self) -> None:
        """Let the client go."""
        self._closed = True
        if self._reader is not None:
            self._reader.close()


def _has_passed(positions: Positions, ends: Positions) -> bool:
    return all(positions[partition] >= end for partition, end in ends.items())
