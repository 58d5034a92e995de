"""Claims changes of the input's partitions in the ledger: the start of new ones, and the end of deleted topics.

If the ledger forgot a partition that still exists, its records would be processed again. So a topic only counts as
deleted if its own cluster says, each time it is asked for ten minutes, that the name does not exist or has another id.
A topic that cannot be described is not deleted. Ids are never reused. A state without the id of its cluster is kept,
since the connector may read from another cluster now.

Between the last record of a transaction and its commit, `ClaimCheck` makes sure that its claim is the first:

1. The claim is in the ledger, at a known offset.
2. The ledger is read up to that offset.
3. If an earlier claim on the same offsets is committed, abort and filter the records again. If it is undecided, wait
   for its marker. After a while its slot is fenced, but only the marker decides.
4. If no earlier claim is left, commit.

Two committed transactions never have an offset in common: before the later claim was committed, the earlier one was
seen to be aborted. This needs no clock, lock, count or membership.

AlterShareGroupOffsets only changes the stored state. The leader of a partition keeps using its memory until it must
refuse an acknowledgement of a member (measured with Kafka 4.3), so the next member would get records from the old
position. Therefore, in `reset_leader_positions`, a temporary member acquires some records of each partition first, and
releases all of them.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ringfence.fencing.clock import Clock, Deadline
from ringfence.fencing.errors import Abortable, FencingError, Retriable
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.share_groups import Answer, ShareMember
from ringfence.fencing.kafka.topic_admin import cluster_id, topic_ids
from ringfence.fencing.kafka.topic_offsets import OffsetKind, offsets_at
from ringfence.fencing.offsets.ledger_keys import InputPartition
from ringfence.fencing.share.input_topics import InputTopics
from ringfence.fencing.share.ledger import Claims, ProcessedOffsets, Rivals
from ringfence.fencing.share.ledger_tail import LedgerTail
from ringfence.fencing.share.settings import Start

Partition = tuple[str, int]

_POLL_S = 1.0
_QUIET_S = 12.0
_RECORDS = 10


@dataclass(frozen=True, slots=True)
class PartitionBounds:
    """A partition's new start and its end. There may be records in between."""

    start: int
    end: int


def is_sure(start: int, first: int, before: int | None) -> bool:
    """Return whether the leader certainly uses the new start. first: the first record of this delivery; before: the
    first record of the previous one, which was released.

    There may be no record at the start. A later first record may also come from the old position, if the start moved
    back. Only if it is delivered again, after the leader has handled its release, is it the first one that exists.
    """
    return first == start or (first > start and first == before)


def reset_leader_positions(
    connection: Connection, group: str, bounds: Mapping[Partition, PartitionBounds], limit: Deadline
) -> list[Partition]:
    """Make the partitions' leaders start there; return those for which it is not certain (`is_sure`). Raises nothing.

    For a partition that starts at its end, it is certain if no record arrives within the time that a member needs to
    join.
    """
    left = {place for place, one in bounds.items() if one.start < one.end}
    quiet = set(bounds) - left
    try:
        member = ShareMember(connection, group, sorted({topic for topic, _ in bounds}), "ringfence-flush", _RECORDS)
    except FencingError as error:
        log.info("%s", error)
        return sorted(bounds)
    began = Deadline.after(_QUIET_S)
    before: dict[Partition, int] = {}
    try:
        while (left or (quiet and not began.expired)) and not limit.expired:
            messages = member.poll(limit.slice(_POLL_S))
            firsts: dict[Partition, int] = {}
            for message in messages:
                member.answer(message, Answer.RELEASE)
                place = str(message.topic()), int(message.partition() or 0)
                firsts[place] = min(firsts.get(place, message.offset() or 0), message.offset() or 0)
            if messages:
                member.send_answers(limit.slice(5.0))
            for place, first in firsts.items():
                if place in bounds and is_sure(bounds[place].start, first, before.get(place)):
                    left.discard(place)
            before |= firsts
    except FencingError as error:
        log.info("%s", error)
        return sorted(left | quiet)
    finally:
        member.close()
    return sorted(left)


_LOOK_SECONDS = 0.5
BLOCKED = "CLAIMED_BY_ANOTHER"


class ClaimCheck:
    """The check of one task.

    fence(slots): ends the open transactions of these slots' transactional ids. patience_s: how long to wait for an
    undecided claim before that. It must be longer than a transaction takes, or slow tasks are fenced.
    """

    def __init__(
        self,
        tail: LedgerTail,
        slot: int,
        fence: Callable[[Sequence[int], Deadline], None],
        clock: Clock,
        patience_s: float,
    ) -> None:
        self._tail = tail
        self._slot = slot
        self._fence = fence
        self._clock = clock
        self._patience_s = patience_s
        self.conflicts = 0
        self.fences = 0

    def restart(self, tail: LedgerTail) -> None:
        """Continue with another reader of the ledger."""
        self._tail = tail

    def run(self, claims: Claims, at: int, deadline: Deadline, stopping: Callable[[], bool]) -> None:
        """Return when the claim at ledger offset `at` is the first on all of its offsets; else raise `Abortable`."""
        if not self._tail.wait(lambda: self._tail.position > at, deadline.remaining):
            raise Abortable(f"The ledger could not be read up to the claim at {at} in time: the transaction is aborted")
        fence_at = self._clock.monotonic() + self._patience_s
        while True:
            rivals = self._rivals(claims, at)
            if rivals.committed:
                self.conflicts += 1
                raise Abortable("Another task has committed some of these records, so this task skips them", BLOCKED)
            if not rivals.open_slots:
                return
            if deadline.expired or stopping():
                raise Abortable("Another task's claim on these records is not decided yet", BLOCKED)
            if self._clock.monotonic() >= fence_at:
                self._end(sorted(rivals.open_slots - {self._slot}), deadline)
                fence_at = self._clock.monotonic() + self._patience_s
            wait = min(_LOOK_SECONDS, max(0.01, fence_at - self._clock.monotonic()))
            self._tail.wait(lambda last=rivals: self._rivals(claims, at) != last, wait)  # type: ignore[misc]

    def _rivals(self, claims: Claims, at: int) -> Rivals:
        with self._tail.condition:
            return self._tail.ledger.find_rivals(claims, at)

    def _end(self, slots: Sequence[int], deadline: Deadline) -> None:
        if not slots:
            return
        log.warning("Tasks %s have blocked records for too long and are fenced; if they are alive, they restart", slots)
        self.fences += len(slots)
        try:
            self._fence(slots, deadline)
        except Retriable as error:
            log.info("%s", error)
        except FencingError as error:
            raise Abortable(f"Tasks {list(slots)} block records, and cannot be fenced: {error}", error.code) from error


AFTER_S = 600.0
_EVERY_S: Final = 20.0
_ASK_SECONDS: Final = 10.0

Places = Mapping[InputPartition, tuple[str, str]]
"""Input partitions, with the topic's name and its cluster's id from the ledger; "" if unknown."""


class Absences:
    """Tracks since when each partition's topic has been missing without interruption. Pure."""

    def __init__(self, after_s: float) -> None:
        self._after_s = after_s
        self._since: dict[InputPartition, float] = {}

    def note(
        self, now: float, places: Places, cluster: str, topic_ids: Mapping[str, str | None]
    ) -> list[InputPartition]:
        """Return the deleted partitions. topic_ids: the id of each name in this cluster, None if the cluster says that
        there is no such topic; names whose state is unknown are left out.
        """
        away = [
            tp
            for tp, (name, home) in places.items()
            if name in topic_ids and topic_ids[name] != tp.topic_id and home and home == cluster
        ]
        self._since = {tp: self._since.get(tp, now) for tp in away}
        return [tp for tp, since in self._since.items() if now - since >= self._after_s]


class DeletedTopics:
    """Asks the input's cluster regularly."""

    def __init__(self, connection: Connection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock
        self._absences = Absences(AFTER_S)
        self._every_s = min(_EVERY_S, AFTER_S / 4)
        self._looked_at = clock.monotonic()

    def look(self, places: Places) -> list[InputPartition]:
        """Return the deleted partitions; none if the cluster does not answer."""
        now = self._clock.monotonic()
        if now - self._looked_at < self._every_s or not places:
            return []
        self._looked_at = now
        limit = Deadline.after(_ASK_SECONDS, self._clock)
        try:
            cluster = cluster_id(self._connection, limit)
            return self._absences.note(now, places, cluster, self._ask({name for name, _ in places.values()}, limit))
        except FencingError as error:
            log.info("%s", error)
            return self._absences.note(now, places, "", {})

    def _ask(self, names: Iterable[str], limit: Deadline) -> dict[str, str | None]:
        """Ask for the names one by one, since a failure for one says nothing about the others."""
        ids: dict[str, str | None] = {}
        for name in sorted(set(names) - {""}):
            try:
                ids |= topic_ids(self._connection, [name], limit)
            except FencingError as error:
                log.info("%s", error)
        return ids


log = logging.getLogger(__name__)

_SECONDS: Final = 30.0
_TURN_S: Final = 2.0
"""The first task claims at once, the others after this time, so that they do not conflict."""


class PartitionClaims:
    """What one slot claims in addition to its records. Used on the task's thread."""

    def __init__(
        self,
        connection: Connection,
        slot: int,
        inputs: InputTopics,
        offsets: ProcessedOffsets,
        start: Start,
        clock: Clock,
    ) -> None:
        self._connection, self._slot, self._inputs, self._offsets = connection, slot, inputs, offsets
        self._start, self._clock = start, clock
        self._deleted_topics = DeletedTopics(connection, clock)
        self._unknown_since = 0.0

    def claim(self, tail: LedgerTail) -> bool:
        """Claim what has changed. Return whether records must wait for it."""
        return self._claim_starts(tail) or self._claim_ends(tail)

    def _claim_starts(self, tail: LedgerTail) -> bool:
        """Claim the start of partitions that the ledger does not know; return False if it knows all of them."""
        with tail.condition:
            unknown = [(name, tp) for name, tp in self._inputs.partitions() if not self._offsets.is_known(tp)]
            if not unknown:
                self._unknown_since = 0.0
                return False
            partitions = tail.ledger.partitions()
            known_topics = {state.topic for tp in partitions if (state := tail.ledger.state(tp)) is not None}
        now = self._clock.monotonic()
        self._unknown_since = self._unknown_since or now
        if self._slot and now - self._unknown_since < _TURN_S:
            tail.wait(lambda: all(self._offsets.is_known(tp) for _, tp in unknown), 0.2)
            return True
        for name, tp in unknown:
            latest = self._start is Start.LATEST and name not in known_topics
            place = OffsetKind.END if latest else OffsetKind.FIRST
            limit = Deadline.after(_SECONDS, self._clock)
            low = offsets_at(self._connection, name, [tp.partition], place, limit)[tp.partition]
            self._offsets.claim_start(tp, name, low)
        return True

    def _claim_ends(self, tail: LedgerTail) -> bool:
        """Have the ledger forget deleted topics; the first task does it for all. Return whether there is something to
        write.
        """
        if self._slot:
            return False
        with tail.condition:
            places = tail.ledger.places()
        for tp in self._deleted_topics.look(places):
            log.info("Topic %s of id %s was deleted: the ledger forgets it", places[tp][0], tp.topic_id)
            self._offsets.end(tp)
        return self._offsets.pending
