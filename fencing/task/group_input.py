"""From a consumer group's partitions into one producer's transactions, exactly once (KIP-447).

The offsets that were read up to are committed in the transaction of what was made of the records, with the group's
metadata: the broker refuses them from a member whose generation is over, and with them all of the transaction. So one
producer is enough for any number of partitions, and no transactional id stands for a partition.

The rules, kept here: the transaction is finished inside the revocation, aborted on a loss; after every abort and every
commit in doubt a new producer is taken first, and then the committed offsets are read again (invariant 11).
"""

import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from ringfence.fencing.clock import Clock, Deadline
from ringfence.fencing.errors import Abortable, Fenced, FencingError, Retriable
from ringfence.fencing.kafka.input_group import InputRecord
from ringfence.fencing.kafka.membership import GroupMetadata
from ringfence.fencing.kafka.protocols import TransactionalClient

log = logging.getLogger(__name__)

OLD_GENERATION = frozenset({"ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID"})
"""Codes of a `Fenced` that says: the group went on without this member. It may join again."""

_SECONDS = 60.0


class OffsetsProducer(TransactionalClient, Protocol):
    """A transactional producer that takes consumer offsets along."""

    def send_offsets(
        self, offsets: Sequence[tuple[str, int, int]], group_metadata: bytes, deadline: Deadline
    ) -> None: ...


class Input(Protocol):
    """What is needed of `fencing.kafka.input_group.InputGroup`."""

    @property
    def metadata(self) -> GroupMetadata | None: ...

    def poll(self, seconds: float, limit: int) -> list[InputRecord]: ...

    def rewind(self, deadline: Deadline) -> None: ...

    def close(self) -> None: ...


class GroupInput:
    """One member with its one producer. `step` it on one thread, at least every `max.poll.interval.ms`.

    join(on_revoke, on_loss): makes the group's member. new_producer(): not initialised yet, always of the same
    transactional id. handle(records, producer): produces what is to be made of the records; what it raises is the
    caller's, and the records come again. interval_s: a transaction is committed when it is as old as that.
    """

    def __init__(
        self,
        join: Callable[[Callable[[], None], Callable[[], None]], Input],
        new_producer: Callable[[], OffsetsProducer],
        handle: Callable[[Sequence[InputRecord], OffsetsProducer], None],
        clock: Clock,
        *,
        interval_s: float = 0.0,
        limit: int = 1000,
    ) -> None:
        self._new_producer = new_producer
        self._handle = handle
        self._clock = clock
        self._interval_s = interval_s
        self._limit = limit
        self._next: dict[tuple[str, int], int] = {}
        self._open = False
        self._opened_at = 0.0
        self._behind = False  # the committed offsets have to be read again
        self._fenced: Fenced | None = None
        self.committed = 0
        """Transactions."""
        self.aborted = 0
        self._producer = self._init_producer()
        self._input = join(self._finish, self._abort)

    @property
    def open(self) -> bool:
        """Whether a transaction is open."""
        return self._open

    def _init_producer(self) -> OffsetsProducer:
        producer = self._new_producer()
        try:
            producer.init(Deadline.after(_SECONDS, self._clock))
        except BaseException:
            producer.close()
            raise
        return producer

    def step(self, seconds: float) -> int:
        """Poll for up to `seconds`, handle what came, commit what is due; the number of records handled.

        A transaction that cannot be committed is aborted and its records come again, here or at their new owner; a
        generation that is over is no error. Raises `Fenced` where another producer has the transactional id, `Fatal`,
        `Retriable` (step again), and what `handle` raises.
        """
        self._catch_up()
        records = self._input.poll(seconds, self._limit)
        if self._fenced is not None:
            raise self._fenced
        try:
            if records:
                self._take(records)
            if self._open and self._clock.monotonic() - self._opened_at >= self._interval_s:
                self._commit()
        except (Abortable, Fenced, Retriable) as error:
            self._give_up(error)
            if self._fenced is not None:
                raise
        except BaseException:
            self._abort()
            raise
        return len(records)

    def _catch_up(self) -> None:
        """A new producer shuts out what the old one may still send; only then do the committed offsets stand."""
        if self._producer.spent:
            self._behind = True
            self._producer.close()
            self._producer = self._init_producer()
        if self._behind:
            self._input.rewind(Deadline.after(_SECONDS, self._clock))
            self._behind = False

    def _take(self, records: Sequence[InputRecord]) -> None:
        if not self._open:
            self._producer.begin()
            self._open = True
            self._opened_at = self._clock.monotonic()
        self._handle(records, self._producer)
        for record in records:
            self._next[(record.topic, record.partition)] = record.offset + 1

    def _commit(self) -> None:
        deadline = Deadline.after(_SECONDS, self._clock)
        metadata = self._input.metadata
        if metadata is None:
            raise Abortable("The partitions that the open transaction was read from are not this member's any more")
        offsets = [(topic, partition, offset) for (topic, partition), offset in self._next.items()]
        self._producer.send_offsets(offsets, metadata.raw, deadline)
        self._producer.commit(deadline)
        self._next.clear()
        self._open = False
        self.committed += 1

    def _finish(self) -> None:
        """The partitions are about to go: commit, or leave all of it to the next owner."""
        if not self._open:
            return
        try:
            self._commit()
        except FencingError as error:
            self._give_up(error)

    def _give_up(self, error: FencingError) -> None:
        log.warning("The transaction is aborted, its input is read again by whoever owns it: %s", error)
        if isinstance(error, Fenced) and error.code not in OLD_GENERATION:
            self._fenced = error
        self._abort()

    def _abort(self) -> None:
        """The producer is spent afterwards, so the next step renews it."""
        self._next.clear()
        if self._open:
            self._open = False
            self.aborted += 1
            self._producer.abort(Deadline.after(10.0, self._clock))

    def close(self) -> None:
        """Finish what is open, leave the group, and let the producer go."""
        try:
            self._input.close()
        finally:
            self._abort()
            self._producer.close()
