"""Reads a consumer group's partitions and writes in one producer's transactions (KIP-447), without a plugin.

The consumed offsets are committed in the transaction of the produced records, with the group's metadata: the broker
refuses them, and with them the whole transaction, from a member of an old generation. So one producer is enough for any
number of partitions, and no partition needs a transactional id.

The rules: the transaction is finished inside the revocation, and aborted on a loss; after each abort and each commit
with an unknown outcome, the committed offsets are read again, after a spent producer is replaced (invariant 11).
"""

import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from ringfence.fencing.clock import Clock, Deadline
from ringfence.fencing.errors import Abortable, Fenced, FencingError, Retriable
from ringfence.fencing.kafka.membership import GroupMetadata, InputRecord
from ringfence.fencing.transactions.client import TransactionalClient

log = logging.getLogger(__name__)

OLD_GENERATION = frozenset({"ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID"})
"""The codes of a `Fenced` which mean that the group continued without this member. It may join again."""

_SECONDS = 60.0


class OffsetsProducer(TransactionalClient, Protocol):
    """A transactional producer that also commits consumer offsets."""

    def send_offsets(
        self, offsets: Sequence[tuple[str, int, int]], group_metadata: bytes, deadline: Deadline
    ) -> None: ...


class Input(Protocol):
    """The part of `fencing.kafka.membership.InputGroupMember` that is used here."""

    @property
    def metadata(self) -> GroupMetadata | None: ...

    def poll(self, seconds: float, limit: int) -> list[InputRecord]: ...

    def rewind(self, deadline: Deadline) -> None: ...

    def close(self) -> None: ...


class GroupCopier:
    """A member with its producer. Call `step` on one thread, at least every `max.poll.interval.ms`.

    join(on_revoke, on_loss): creates the member. new_producer(): returns a producer that is not initialised yet, always
    with the same transactional id. handle(records, producer): produces the results of the records; what it raises is
    passed to the caller, and the records are read again. interval_s: the age at which a transaction is committed.
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
        self._behind = False  # the committed offsets must be read again
        self._fence_error: Fenced | None = None
        self.committed = 0
        """The number of transactions."""
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
        """Poll for up to `seconds`, handle the records, commit what is due. Returns the number of records handled.

        A transaction that cannot be committed is aborted, and its records are read again here or by their new owner; an
        old generation is not an error. Raises `Fenced` if another producer has the transactional id, `Fatal`,
        `Retriable` (step again), and what `handle` raises.
        """
        self._catch_up()
        records = self._input.poll(seconds, self._limit)
        if self._fence_error is not None:
            raise self._fence_error
        try:
            if records:
                self._take(records)
            if self._open and self._clock.monotonic() - self._opened_at >= self._interval_s:
                self._commit()
        except (Abortable, Fenced, Retriable) as error:
            self._give_up(error)
            if self._fence_error is not None:
                raise
        except BaseException:
            self._abort()
            raise
        return len(records)

    def _catch_up(self) -> None:
        """Create a new producer, which fences what the old one may still send; only then are the committed offsets
        final.
        """
        if self._producer.spent:
            self._abort()
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
        """The partitions are being revoked: commit, or leave the records to the next owner."""
        if not self._open:
            return
        try:
            self._commit()
        except FencingError as error:
            self._give_up(error)

    def _give_up(self, error: FencingError) -> None:
        log.warning("The transaction is aborted, its input is read again by whoever owns it: %s", error)
        if isinstance(error, Fenced) and error.code not in OLD_GENERATION:
            self._fence_error = error
        self._abort()

    def _abort(self) -> None:
        """Abort. The next step reads the committed offsets again, with another producer if this one is spent."""
        self._next.clear()
        if self._open:
            self._open = False
            self._behind = True
            self.aborted += 1
            self._producer.abort(Deadline.after(10.0, self._clock))

    def close(self) -> None:
        """Finish the open transaction, leave the group, and close the producer."""
        try:
            self._input.close()
        finally:
            self._abort()
            self._producer.close()
