"""A source task that reads as a member of a share group, each record committed once for all tasks (KIP-932, KIP-618).

The group only says who tries which record when. Before a transaction's records go out, its claim on their offsets is
written to the ledger; before it commits, the ledger is read up to that claim (`ringfence.fencing.share.check`).
Records are accepted when they are committed, and what the broker answers to that means nothing.

A batch: 1 records of the group, or of the sweep, without what the ledger has; 2 the plugin makes its own of them; 3 the
claim, first of the transaction, and the plugin's records; 4 this slot's states, last; 5 the check; 6 the commit; 7 the
records are accepted, with the next poll.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Sequence

from ringfence.connectors import api
from ringfence.fencing.clock import Clock, Deadline
from ringfence.fencing.errors import Abortable, Fatal
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.kafka.delivery import Delivery
from ringfence.fencing.kafka.protocols import Produce
from ringfence.fencing.kafka.settings import Connection
from ringfence.fencing.kafka.share_member import Answer, Message, ShareMember, alter_share_group
from ringfence.fencing.offsets.ledger_keys import LEDGER_PARTITION, InputPartition
from ringfence.fencing.offsets.source_offsets import Offset, Partition
from ringfence.fencing.share.check import ClaimCheck
from ringfence.fencing.share.claims import SlotClaims
from ringfence.fencing.share.exhausted_records import ExhaustedRecords
from ringfence.fencing.share.held import Held, find_held
from ringfence.fencing.share.input_changes import InputChanges
from ringfence.fencing.share.input_topics import InputTopics
from ringfence.fencing.share.ledger_records import claim_key, encode_claim
from ringfence.fencing.share.ledger_tail import LedgerTail
from ringfence.fencing.share.records import ShareRecord
from ringfence.fencing.share.settings import ShareSettings
from ringfence.fencing.share.suspects import Suspects
from ringfence.fencing.share.sweep import Sweep
from ringfence.fencing.topics.sweep_requests import SweepRequestRecord

log = logging.getLogger(__name__)

_SECONDS = 30.0
_REFRESH_S = 10.0


class ShareSource:
    """One task's membership; it outlives the lives of an attempt. All methods but `check` on the task's thread."""

    def __init__(
        self,
        connector: ConnectorName,
        slot: int,
        input_connection: Connection,
        group: str,
        topics: Sequence[str],
        settings: ShareSettings,
        tail: LedgerTail,
        *,
        client_id: str,
        limit: int,
        slots: Callable[[], int],
        fence: Callable[[Sequence[int], Deadline], None],
        stopping: Callable[[], bool],
        hurried: Callable[[], SweepRequestRecord | None],
        clock: Clock,
    ) -> None:
        """slots: how many tasks the attempt's generation has, 0 where another one has followed. stopping: whether the
        attempt shall end. hurried: what the sweep shall look at now. Raises `FencingError`.
        """
        self.group, self.topics = group, tuple(topics)
        self._connector, self._slot = connector, slot
        self._connection = input_connection
        self._settings, self._tail = settings, tail
        self._stopping, self._hurried = stopping, hurried
        self._clock = clock
        self._client_id, self._limit = client_id, limit
        self._inputs = InputTopics(input_connection, topics)
        self._claims = SlotClaims(tail.ledger, slot, slots)
        self._changes = InputChanges(input_connection, slot, self._inputs, self._claims, settings.start, clock)
        self._check = ClaimCheck(tail, slot, fence, clock, settings.patience_s)
        self._sweep = Sweep(
            input_connection,
            self._inputs,
            tail,
            self._claims,
            settings.sweep_after_s,
            lambda tp: tp.partition % max(1, slots()) == slot,
            clock,
        )
        self._queue: deque[ShareRecord] = deque()
        self._handed: list[ShareRecord] = []
        self._suspects = Suspects(self._claims, settings.delivery_limit, settings.exhausted)
        self.exhausted = ExhaustedRecords(settings.delivery_limit)
        self._claim = Delivery("writing a claim")
        self._refreshed_at = 0.0
        alter_share_group(input_connection, group, settings.of_group, Deadline.after(_SECONDS, clock))
        try:
            alter_share_group(input_connection, group, settings.where_allowed, Deadline.after(_SECONDS, clock))
        except Fatal as error:
            log.info("%s", error)
        self._member = self._join()
        self.restart(tail)

    def _join(self) -> ShareMember:
        return ShareMember(self._connection, self.group, self.topics, self._client_id, self._limit)

    # What the plugin does.

    def poll(self, seconds: float, limit: int) -> Sequence[ShareRecord]:
        """See `ringfence.connectors.api.ShareInput`."""
        assert not self._handed, "the records of the last poll are in no transaction yet"
        if not self._queue:
            self._fill(seconds)
        return self._hand_out(limit)

    def accept(self, record: api.ShareRecord) -> None:
        """See `ringfence.connectors.api.ShareInput`."""
        self._find(record).answer = Answer.ACCEPT

    def release(self, record: api.ShareRecord) -> None:
        """See `ringfence.connectors.api.ShareInput`."""
        self._find(record).answer = Answer.RELEASE

    def reject(self, record: api.ShareRecord) -> None:
        """See `ringfence.connectors.api.ShareInput`."""
        self._find(record).answer = Answer.REJECT

    def _find(self, record: api.ShareRecord) -> ShareRecord:
        if not isinstance(record, ShareRecord) or record not in self._handed:
            raise api.ConnectorError("This record is not of the last poll: answer each before the task's poll returns")
        return record

    def _fill(self, seconds: float) -> None:
        if self._tail.broken:
            raise Abortable("The ledger has to be read again")
        now = self._clock.monotonic()
        if now - self._refreshed_at >= _REFRESH_S:
            self._refresh()
        if self._changes.claim(self._tail):
            return
        if not self._suspects:
            self._sweep.follow(self._hurried())
            self._suspects.add(self._sweep.look())
        if self._suspects:
            self._try_suspects()
            return
        messages = self._member.poll(seconds)
        if messages:
            self._take(messages)

    def _take(self, messages: Sequence[Message]) -> None:
        """Queue the records; give back those of partitions whose beginning the ledger does not know yet."""
        if not self._inputs.is_same({str(message.topic()) for message in messages}):
            self._refresh()
            for message in messages:
                self._member.answer(message, Answer.RELEASE)
            return
        for message in messages:
            tp = self._inputs.find(str(message.topic()), int(message.partition() or 0))
            if tp is None or not self._claims.is_known(tp):
                self._refreshed_at = 0.0  # a new partition: its beginning comes first
                self._member.answer(message, Answer.RELEASE)
            else:
                self._queue.append(ShareRecord(message, tp, locked=True))

    def _try_suspects(self) -> None:
        """Note the next tries in a transaction of their own, or give up what is exhausted; the next poll goes on."""
        with self._tail.changed:
            exhausted = self._suspects.note()
            for record in exhausted:
                self._claims.claim(record.tp, [record.offset])
        self.exhausted.add(exhausted)
        if not self._claims.pending:
            self._queue.extend(self._suspects.take())

    def _refresh(self) -> None:
        self._inputs.refresh()
        self._refreshed_at = self._clock.monotonic()
        self._claims.cluster = self._inputs.cluster

    def _hand_out(self, limit: int) -> list[ShareRecord]:
        """At most `limit` records that nobody has committed; one alone where this is its last delivery."""
        records: list[ShareRecord] = []
        with self._tail.changed:
            while self._queue and len(records) < limit:
                record = self._queue[0]
                alone = record.alone or record.delivery_count >= self._settings.delivery_limit
                if alone and records:
                    break
                self._queue.popleft()
                if self._claims.is_done(record.tp, record.offset):
                    self._answer(record)
                    continue
                records.append(record)
                if alone:
                    break
        self._handed = records
        return records

    def _answer(self, record: ShareRecord) -> None:
        if record.message is not None:
            self._member.answer(record.message, record.answer)

    # What the transaction does.

    @property
    def has_work(self) -> bool:
        """Whether a transaction is needed, be it without records."""
        return bool(self._handed) or self._claims.pending or (self._claims.noted > 0 and not self._queue)

    def begin(self, produce: Produce, topic: str) -> int:
        """The claim, before everything else of the transaction. Returns how many dead letters follow it."""
        kept: dict[InputPartition, list[int]] = {}
        for record in self._handed:
            if record.answer is not Answer.RELEASE:
                kept.setdefault(record.tp, []).append(record.offset)
        for tp, offsets in kept.items():
            self._claims.claim(tp, offsets)
        claim = self._claims.take_claim()
        self._claim = Delivery("writing a claim")
        produce(topic, encode_claim(claim), claim_key(self._connector, self._slot), LEDGER_PARTITION, self._claim)
        return self.exhausted.produce(produce)

    def states(self) -> list[tuple[Partition, Offset | None]]:
        """This slot's source offsets, to be produced last."""
        with self._tail.changed:
            return self._claims.states()

    def check(self, flush: Callable[[float], int], deadline: Deadline) -> None:
        """On the committing thread, before the commit. Raises `Abortable` where it must not happen."""
        while (at := self._claim.offset) is None:
            flush(min(1.0, max(0.05, deadline.remaining)))
            if self._claim.error is not None:
                raise self._claim.error
            if deadline.expired:
                raise Abortable("The claim on these records could not be written in time")
        self._check.run(self._claims.wanted, at, deadline, self._stopping)

    def settle(self) -> None:
        """The transaction is committed: accept its records."""
        with self._tail.changed:
            self._claims.settle()
        for record in self._handed:
            self._answer(record)
        self._handed = []
        self.exhausted.clear()
        self._queue.extend(self._suspects.take())

    # Around it.

    @property
    def held(self) -> Held:
        """What the task has of the group's records right now. Any thread: each of the two copies is one step."""
        return find_held([*self._handed, *list(self._queue)])

    def restart(self, tail: LedgerTail) -> None:
        """Read the ledger to its end, and hand out again the records that nobody has committed. Raises `FencingError`.

        Call it after any doubt, and after a new producer's init.
        """
        self._tail = tail
        if self._member.broken:
            self._member.close()
            self._member = self._join()
        tail.catch_up(Deadline.after(_SECONDS, self._clock))
        with tail.changed:
            self._claims.restart(tail.ledger)
        self._check.restart(tail)
        self._sweep.restart(tail)
        self._suspects.restart()
        self.exhausted.clear()
        for record in reversed(self._handed):
            record.answer = Answer.ACCEPT
            self._queue.appendleft(record)
        self._handed = []

    def rest(self) -> None:
        """Before a pause: give back what is locked, so that nobody waits for it."""
        self._give_back()
        self._member.send_answers(5.0)

    def _give_back(self) -> None:
        for record in (*self._handed, *self._queue):
            record.answer = Answer.RELEASE
            self._answer(record)
        self._handed = []
        self._queue.clear()

    def close(self) -> None:
        """Give back what is locked, and leave the group."""
        began = time.monotonic()
        self._give_back()
        self._member.close()
        self._sweep.close()
        counts = (self._check.conflicts, self._check.fences, self._sweep.swept)
        words = "Left share group %s after %.1f s; %d conflicts, %d fences, %d records swept"
        log.info(words, self.group, time.monotonic() - began, *counts)
