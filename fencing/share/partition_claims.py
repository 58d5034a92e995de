"""Claims changes of the input's partitions in the ledger: the start of new ones, and the end of deleted topics."""

import logging
from typing import Final

from ringfence.fencing.clock import Clock, Deadline
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.topic_offsets import OffsetKind, offsets_at
from ringfence.fencing.share.deleted_topics import DeletedTopics
from ringfence.fencing.share.input_topics import InputTopics
from ringfence.fencing.share.ledger_tail import LedgerTail
from ringfence.fencing.share.processed_offsets import ProcessedOffsets
from ringfence.fencing.share.settings import Start

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
