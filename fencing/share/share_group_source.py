"""A source task that reads as a member of a share group, each record committed once for all tasks (KIP-932, KIP-618).

The group only decides which task tries a record, and when. Before a transaction's records are produced, its claim on
their offsets is written to the ledger. Before it commits, the ledger is read up to that claim
(`ClaimCheck`). Records are accepted after the commit; the broker's response does not matter.

A batch: 1 take records from the group or the sweep, except those in the ledger; 2 the plugin converts them; 3 produce
the claim as the transaction's first record, then the plugin's; 4 produce this slot's states, last; 5 check; 6 commit;
7 accept the records, with the next poll.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Sequence

from ringfence.connectors import api
from ringfence.fencing.clock import Clock, Deadline
from ringfence.fencing.errors import Abortable, Fatal
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.share_groups import Answer, Message, ShareMember, alter_share_group
from ringfence.fencing.offsets.ledger_keys import LEDGER_PARTITION, InputPartition
from ringfence.fencing.offsets.source_offsets import Offset, Partition
from ringfence.fencing.share.input_topics import InputTopics, ShareRecord
from ringfence.fencing.share.ledger import ProcessedOffsets, claim_key, encode_claim
from ringfence.fencing.share.ledger_tail import LedgerTail
from ringfence.fencing.share.offset_ranges import LockedRanges, find_held
from ringfence.fencing.share.partition_claims import ClaimCheck, PartitionClaims
from ringfence.fencing.share.settings import ShareSettings
from ringfence.fencing.share.sweep import ExhaustedRecords, Suspects, Sweep
from ringfence.fencing.topics.sweep_requests import SweepRequestRecord
from ringfence.fencing.transactions.client import Produce

log = logging.getLogger(__name__)

_SECONDS = 30.0
_REFRESH_S = 10.0


class ShareSource:
    """One task's membership, kept over the retries of an attempt. Call all methods but `check` on the task's thread."""

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
        sweep_request: Callable[[], SweepRequestRecord | None],
        clock: Clock,
    ) -> None:
        """slots: returns the number of tasks in the attempt's generation, 0 if a newer one exists. stopping: whether
        the attempt must end. sweep_request: what the sweep must read now. Raises `FencingError`.
        """
        self.group, self.topics = group, tuple(topics)
        self._connector, self._slot = connector, slot
        self._connection = input_connection
        self._settings, self._tail = settings, tail
        self._stopping, self._sweep_request = stopping, sweep_request
        self._clock = clock
        self._client_id, self._limit = client_id, limit
        self._inputs = InputTopics(input_connection, topics)
        self._offsets = ProcessedOffsets(tail.ledger, slot, slots)
        self._changes = PartitionClaims(input_connection, slot, self._inputs, self._offsets, settings.start, clock)
        self._check = ClaimCheck(tail, slot, fence, clock, settings.patience_s)
        self._sweep = Sweep(
            input_connection,
            self._inputs,
            tail,
            self._offsets,
            settings.sweep_after_s,
            lambda tp: tp.partition % max(1, slots()) == slot,
            clock,
        )
        self._queue: deque[ShareRecord] = deque()
        self._batch: list[ShareRecord] = []
        self._suspects = Suspects(self._offsets, settings.delivery_limit, settings.exhaustion)
        self.exhausted_records = ExhaustedRecords(settings.delivery_limit)
        self._claim_at: int | None = None
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

    # The plugin's side.

    def poll(self, seconds: float, limit: int) -> Sequence[ShareRecord]:
        """See `ringfence.connectors.api.ShareInput`."""
        assert not self._batch, "the records of the last poll are in no transaction yet"
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
        if not isinstance(record, ShareRecord) or record not in self._batch:
            raise api.ConnectorError(
                "This record is not from the last poll: answer each one before the task's poll returns"
            )
        return record

    def _fill(self, seconds: float) -> None:
        if self._tail.broken:
            raise Abortable("The ledger must be read again")
        now = self._clock.monotonic()
        if now - self._refreshed_at >= _REFRESH_S:
            self._refresh()
        if self._changes.claim(self._tail):
            return
        if not self._suspects:
            self._sweep.follow(self._sweep_request())
            self._suspects.add(self._sweep.look())
        if self._suspects:
            self._try_suspects()
            return
        messages = self._member.poll(seconds)
        if messages:
            self._take(messages)

    def _take(self, messages: Sequence[Message]) -> None:
        """Queue the records; release those of partitions whose start the ledger does not know yet."""
        if not self._inputs.is_same({str(message.topic()) for message in messages}):
            self._refresh()
            for message in messages:
                self._member.answer(message, Answer.RELEASE)
            return
        for message in messages:
            tp = self._inputs.find(str(message.topic()), int(message.partition() or 0))
            if tp is None or not self._offsets.is_known(tp):
                self._refreshed_at = 0.0  # a new partition: its start is claimed first
                self._member.answer(message, Answer.RELEASE)
            else:
                self._queue.append(ShareRecord(message, tp, locked=True))

    def _try_suspects(self) -> None:
        """Note the next tries in a separate transaction, or give up exhausted records; the next poll continues."""
        with self._tail.condition:
            records = self._suspects.note()
            for record in records:
                self._offsets.claim(record.tp, [record.offset])
        self.exhausted_records.add(records)
        if not self._offsets.pending:
            self._queue.extend(self._suspects.take())

    def _refresh(self) -> None:
        self._inputs.refresh()
        self._refreshed_at = self._clock.monotonic()
        self._offsets.cluster = self._inputs.cluster

    def _hand_out(self, limit: int) -> list[ShareRecord]:
        """Return at most `limit` uncommitted records; only one if this is its last delivery."""
        records: list[ShareRecord] = []
        with self._tail.condition:
            while self._queue and len(records) < limit:
                record = self._queue[0]
                alone = record.alone or record.delivery_count >= self._settings.delivery_limit
                if alone and records:
                    break
                self._queue.popleft()
                if self._offsets.is_done(record.tp, record.offset):
                    self._answer(record)
                    continue
                records.append(record)
                if alone:
                    break
        self._batch = records
        return records

    def _answer(self, record: ShareRecord) -> None:
        if record.message is not None:
            self._member.answer(record.message, record.answer)

    # The transaction's side.

    @property
    def has_work(self) -> bool:
        """Return whether a transaction is needed, even without records."""
        return bool(self._batch) or self._offsets.pending or (self._offsets.pending_count > 0 and not self._queue)

    def begin(self, produce: Produce, topic: str) -> int:
        """Produce the claim, first in the transaction. Return how many dead letters follow it."""
        by_partition: dict[InputPartition, list[int]] = {}
        for record in self._batch:
            if record.answer is not Answer.RELEASE:
                by_partition.setdefault(record.tp, []).append(record.offset)
        for tp, offsets in by_partition.items():
            self._offsets.claim(tp, offsets)
        claim = self._offsets.take_claim()
        self._claim_at = None
        key = claim_key(self._connector, self._slot)
        produce(topic, encode_claim(claim), key, LEDGER_PARTITION, on_written=self._note_claim)
        return self.exhausted_records.produce(produce)

    def _note_claim(self, _partition: int, offset: int, _time_ms: int) -> None:
        self._claim_at = offset

    def states(self) -> list[tuple[Partition, Offset | None]]:
        """Return this slot's source offsets, to be produced last."""
        with self._tail.condition:
            return self._offsets.states()

    def check(self, flush: Callable[[float], int], deadline: Deadline) -> None:
        """Check, on the committing thread, that the transaction may commit; else raise `Abortable`."""
        while (at := self._claim_at) is None:
            flush(min(1.0, max(0.05, deadline.remaining)))
            if self._claim_at is None and deadline.expired:
                raise Abortable("The claim on these records could not be written in time")
        if at < 0:
            raise Abortable("Where the claim on these records was written is not known")
        self._check.run(self._offsets.claims, at, deadline, self._stopping)

    def settle(self) -> None:
        """Accept the records of the transaction, which is committed."""
        with self._tail.condition:
            self._offsets.settle()
        for record in self._batch:
            self._answer(record)
        self._batch = []
        self.exhausted_records.clear()
        self._queue.extend(self._suspects.take())

    # The attempt's side.

    @property
    def locked_ranges(self) -> LockedRanges:
        """Return the group's records that the task holds now. Any thread may call it: each copy is atomic."""
        return find_held([*self._batch, *list(self._queue)])

    def restart(self, tail: LedgerTail) -> None:
        """Read the ledger to its end, and return the uncommitted records again from `poll`. Raises `FencingError`.

        Call it after an unknown outcome, and after a new producer's initialisation.
        """
        self._tail = tail
        if self._member.broken:
            self._member.close()
            self._member = self._join()
        tail.catch_up(Deadline.after(_SECONDS, self._clock))
        with tail.condition:
            self._offsets.restart(tail.ledger)
        self._check.restart(tail)
        self._sweep.restart(tail)
        self._suspects.restart()
        self.exhausted_records.clear()
        for record in reversed(self._batch):
            record.answer = Answer.ACCEPT
            self._queue.appendleft(record)
        self._batch = []

    def rest(self) -> None:
        """Release the locked records before a pause, so that other members get them."""
        self._give_back()
        self._member.send_answers(5.0)

    def _give_back(self) -> None:
        for record in (*self._batch, *self._queue):
            record.answer = Answer.RELEASE
            self._answer(record)
        self._batch = []
        self._queue.clear()

    def close(self) -> None:
        """Release the locked records, and leave the group."""
        began = time.monotonic()
        self._give_back()
        self._member.close()
        self._sweep.close()
        counts = (self._check.conflicts, self._check.fences, self._sweep.swept)
        words = "Left share group %s after %.1f s; %d conflicts, %d fences, %d records swept"
        log.info(words, self.group, time.monotonic() - began, *counts)
