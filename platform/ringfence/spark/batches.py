"""Writes a batch to Kafka exactly once, from many executors. Needs Kafka and a function that writes parts, but no
Spark.

1. Each part is written in its own transaction, which its executor leaves open.
2. The driver asks the coordinators whether every part's transaction is open and has time left.
3. It commits the decision, in its own transaction: batch number, query, and each part's open transaction.
4. It commits the parts' transactions. Each contains a record that names it.

Before step 3 nothing of the batch is visible, and nothing will be: no other process ever commits parts. After step 3
any later run finishes the batch: it commits what is still open, and has those parts whose transactions timed out first
written again, with their own decision. The records of step 4 show which parts are committed, so nothing is guessed.
"""

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Abortable, FencingError, Retriable
from ringfence.fencing.kafka.fencer import Fencer
from ringfence.fencing.kafka.open_transactions import OpenTransaction, TransactionEnder
from ringfence.fencing.transactions.producer import Producer
from ringfence.fencing.transactions.record_columns import GrowingColumns, RecordColumns
from ringfence.spark.records import DIGESTS, Batch, Part, SinkLog, key_of, total_of, value_of_part
from ringfence.spark.settings import RepeatDiffers, SinkError, SinkSettings, Superseded

Columns = dict[str, list[Any]]
"""Rows by column: `value`, `digest` and, if they exist, `key`, `headers`, `topic`, `partition`."""

_INIT_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Assignment:
    """One pass of writing a batch. only: the parts to write, None for all; rows of other parts are only counted and
    hashed.

    series: changes whenever an earlier attempt of this run with the same ids may still be alive.
    """

    settings: SinkSettings
    batch: int
    run: int
    series: int
    only: frozenset[int] | None = None


def write_part(assignment: Assignment, number: int, attempt: int | None, blocks: Iterable[Columns]) -> Part | None:
    """Write one part and leave its transaction open. Returns None for a part without rows.

    attempt: unique in the run, None for a part's first one. If anything fails, the transaction is aborted.
    """
    writes = assignment.only is None or number in assignment.only
    rows, digest = 0, 0
    writer: _Writer | None = None
    try:
        for block in blocks:
            rows += len(block["digest"])
            digest += sum(block["digest"])
            if writes and block["digest"]:
                writer = writer or _Writer(assignment, number, attempt)
                writer.write(block)
        if not rows:
            return None
        digest %= DIGESTS
        transaction = writer.hand_over(rows, digest) if writer is not None else None
        return Part(number, rows, digest, transaction, attempt is None)
    except FencingError as error:
        raise SinkError(f"Part {number} of batch {assignment.batch}: {error}") from error
    finally:
        if writer is not None:
            writer.close()


class _Writer:
    """The producer of one part, created with its first row."""

    def __init__(self, assignment: Assignment, number: int, attempt: int | None) -> None:
        self._assignment, self._number = assignment, number
        settings = assignment.settings
        self._topic = settings.topic
        self._deadline = Deadline.after(settings.transaction_timeout_ms / 1000)
        self._producer = Producer(
            settings.connection,
            settings.transactional_id(assignment.run, assignment.series, number, attempt),
            transaction_timeout_ms=settings.transaction_timeout_ms,
            overrides=dict(settings.producer),
            handed_over=True,
        )
        self._producer.init(Deadline.after(_INIT_SECONDS))
        self._producer.begin()

    def write(self, block: Columns) -> None:
        for columns in _columns_of(block, self._topic):
            self._producer.produce_columns(columns)

    def hand_over(self, rows: int, digest: int) -> OpenTransaction:
        settings, producer = self._assignment.settings, self._producer
        transaction = producer.open_transaction
        key = key_of(settings.sink_id, "part", self._number)
        value = value_of_part(transaction, self._assignment.batch, rows, digest)
        producer.produce(settings.log_topic, value, key)
        return producer.hand_over(self._deadline)

    def close(self) -> None:
        self._producer.close()


def _columns_of(block: Columns, topic: str | None) -> Iterable[RecordColumns]:
    """Return the rows by topic and partition, each in their order."""
    if topic is None and None in block["topic"]:
        raise SinkError("A row has no topic: its column topic is null. Set a topic in all rows, or for the sink.")
    values, keys = block["value"], block.get("key")
    headers = None if "headers" not in block else [_pairs(each) for each in block["headers"]]
    if topic is not None and "partition" not in block:
        return [RecordColumns(topic, -1, values, keys, None, headers)]
    count = len(values)
    topics: Iterable[str] = [topic] * count if topic is not None else block["topic"]
    partitions = block.get("partition") or [None] * count
    places: dict[tuple[str, int], GrowingColumns] = {}
    for number, (name, partition) in enumerate(zip(topics, partitions, strict=True)):
        place = name, -1 if partition is None else partition
        columns = places.get(place) or places.setdefault(place, GrowingColumns(*place))
        key = None if keys is None else keys[number]
        columns.add(values[number], key, 0, None if headers is None else headers[number])
    return places.values()


def _pairs(headers: list[dict[str, Any]] | None) -> list[tuple[str, bytes | None]] | None:
    return [(each["key"], each["value"]) for each in headers if each] if headers else None


WriteParts = Callable[[Assignment], list[Part]]
"""Has every part of a batch written, or compared; returns the result of one attempt for each."""


logger = logging.getLogger(__name__)

_SECONDS: Final = 120.0
_TRIES: Final = 3
_LONGEST_MARGIN_MS: Final = 60_000


class _PartsLost(SinkError):
    """A part's transaction ended before the decision: the batch must be written again."""


class BatchWriter:
    """One run of a sink. Not shared between threads."""

    def __init__(self, settings: SinkSettings) -> None:
        self._settings = settings
        self._log = SinkLog(settings)
        self._series = 0
        self._missing: frozenset[int] = frozenset()
        """Parts of the newest decided batch that are not committed."""
        self._ender: TransactionEnder | None = None
        self._in_doubt = True
        """Whether a batch may be decided but not finished, or abandoned with open transactions."""

    def write(self, number: int, query: str, write_parts: WriteParts, speculates: bool = False) -> None:
        """Have one batch written, or find that it already is. Raises `SinkError`.

        query: the id of the query of this batch. number: increases with each batch. speculates: whether an unused
        attempt may have left a transaction open even if each part's first attempt was used.
        """
        try:
            self._open()
            self._in_doubt = True  # for any exception
            self._write(number, query, write_parts)
            self._in_doubt = False
            if speculates:
                self._release()
        except Superseded:
            self.close()
            raise
        except FencingError as error:
            self._drop_ender()
            raise SinkError(f"Batch {number} of {self._settings.sink_id}: {error}") from error

    def _write(self, number: int, query: str, write_parts: WriteParts) -> None:
        decided = self._log.state.batch
        if decided is not None and decided.query != query:
            self._check_checkpoint(decided, query)
            decided = None
        if decided is None or number > decided.number:
            self._check_complete(decided)
            self._write_new(Batch(number, query, self._log.run), write_parts)
        elif number == decided.number:
            self._compare(decided, write_parts)
        else:
            raise SinkError(
                f"Batch {number} is older than batch {decided.number}, the last one that {self._settings.sink_id} has "
                "written. The checkpoint is an older copy: restore the newest one, or use another sink_id to write "
                "everything from here on again."
            )

    def close(self) -> None:
        """Close the client. The next run finishes what is decided."""
        self._drop_ender()
        self._log.close()

    def _open(self) -> None:
        if self._log.is_open and not self._in_doubt:
            return
        self._log.open()
        if self._log.state.batch is not None:
            self._missing = self._finish(self._log.state.batch)
        if self._in_doubt:
            self._release()

    def _check_checkpoint(self, decided: Batch, query: str) -> None:
        if not self._settings.accept_other_checkpoint:
            raise SinkError(
                f"{self._settings.sink_id} has written batch {decided.number} of the query {decided.query}; this is "
                f"the query {query}, with another checkpoint, which counts its batches from 0 again. Use the old "
                "checkpoint, or another sink_id. To let the new query write in addition to the existing records, "
                "pass other_checkpoint='accept'."
            )

    def _check_complete(self, batch: Batch | None) -> None:
        if self._missing and batch is not None:
            raise SinkError(
                f"Parts {sorted(self._missing)} of batch {batch.number} are not written, but the query has moved on. "
                "Restore the checkpoint of that batch."
            )

    def _write_new(self, batch: Batch, write_parts: WriteParts) -> None:
        for left in reversed(range(_TRIES)):
            try:
                parts = self._have_parts(batch, write_parts, None)
                decided = batch.with_parts(self._log.run, parts)
                self._decide(decided, parts)
                break
            except _PartsLost:
                if not left:
                    raise
        self._missing = self._finish(decided)
        if self._missing:
            self._write_missing(decided, write_parts)
        if not all(part.first for part in parts):
            self._release()

    def _have_parts(self, batch: Batch, write_parts: WriteParts, only: frozenset[int] | None) -> list[Part]:
        """If this fails, or a first attempt was not used, some attempt may still live: none of its ids is
        used again.
        """
        sound = False
        try:
            parts = write_parts(Assignment(self._settings, batch.number, self._log.run, self._series, only))
            sound = all(part.first for part in parts)
            return parts
        except Exception:
            self._release()
            raise
        finally:
            if not sound:
                self._series += 1

    def _decide(self, batch: Batch, parts: Sequence[Part]) -> None:
        """Commit the decision. parts: those of the batch with open transactions. Raises `_PartsLost`, and
        `Superseded`.
        """
        for _ in range(_TRIES):
            try:
                self._check_open(parts)
                self._log.decide(batch)
                return
            except SinkError:
                self._series += 1
                self._release()
                raise
            except Abortable as error:
                logger.info("Deciding batch %d of %s: %s", batch.number, self._settings.sink_id, error)
        raise Retriable(f"batch {batch.number} could not be decided. Nothing of it is visible; restart the query")

    def _check_open(self, parts: Sequence[Part]) -> None:
        by_id = {part.transaction.transactional_id: part.transaction for part in parts if part.transaction is not None}
        transactions = self._coordinators.transactions(list(by_id), Deadline.after(_SECONDS))
        timeout = self._settings.transaction_timeout_ms
        latest = time.time() * 1000 - timeout + min(_LONGEST_MARGIN_MS, timeout // 5)
        remedy = (
            "Nothing of the batch is visible. Raise transaction_timeout_ms (and the brokers' "
            "transaction.max.timeout.ms), or make batches smaller (maxOffsetsPerTrigger, maxFilesPerTrigger), then "
            "restart the query."
        )
        for each in transactions:
            ours = by_id[each.transactional_id]
            if (each.state, each.producer_id, each.epoch) != ("Ongoing", ours.producer_id, ours.epoch):
                self._log.open()  # raises Superseded if that is the reason
                raise _PartsLost(
                    f"The transaction {each.transactional_id} ended before its batch was complete: it took longer "
                    f"than {timeout} ms, or was fenced manually. {remedy}"
                )
            if each.started_ms < latest:
                raise SinkError(f"Writing the batch took nearly all of the transaction timeout, {timeout} ms. {remedy}")

    def _finish(self, batch: Batch) -> frozenset[int]:
        """Commit each part's transaction. Returns the parts whose transactions had already ended. Any run may repeat
        it.
        """
        transactions = [part.transaction for part in batch.parts if part.transaction is not None]
        over = self._coordinators.commit(transactions, Deadline.after(_SECONDS))
        if not over:
            return frozenset()
        deadline = Deadline.after(_SECONDS)
        with Fencer(self._settings.connection) as fencer:
            fencer.fence(sorted(over), deadline)  # so that the log's end covers their outcome
        return self._log.read(deadline).missing(batch)

    def _write_missing(self, batch: Batch, write_parts: WriteParts) -> None:
        """Write those parts of the decided batch again whose transactions ended before they could be committed."""
        for _ in range(_TRIES):
            self._series += 1
            parts = self._have_parts(batch, write_parts, self._missing)
            try:
                again = self._check_missing(batch, parts)
            except RepeatDiffers:
                self._release()
                raise
            batch = batch.with_parts(self._log.run, again)
            self._decide(batch, again)
            self._missing = self._finish(batch)
            if not self._missing:
                return
        raise SinkError(f"Parts {sorted(self._missing)} of batch {batch.number} were lost {_TRIES} times. Restart it.")

    def _compare(self, batch: Batch, write_parts: WriteParts) -> None:
        """Compare a batch that Spark repeats: it was killed before it recorded that the batch is complete.

        The rows are computed in any case: a stateful query would lose its state otherwise.
        """
        if self._missing:
            self._write_missing(batch, write_parts)
            return
        try:
            self._check_repeat(batch, self._have_parts(batch, write_parts, frozenset()))
        except RepeatDiffers as error:
            if not self._settings.keep_first:
                raise
            logger.warning("%s The rows that were written first are kept.", error)
        else:
            logger.info("Batch %d of %s is written already", batch.number, self._settings.sink_id)

    def _check_missing(self, batch: Batch, parts: Sequence[Part]) -> list[Part]:
        """Return the missing parts, written again: each must have the same rows as before."""
        self._check_repeat(batch, parts)
        before = {part.number: part for part in batch.parts}
        again = [part for part in parts if part.number in self._missing]
        for part in again:
            if not part.has_rows_of(before[part.number]):
                raise self._differ(batch, f"part {part.number} has other rows")
        if {part.number for part in again} != self._missing:
            raise self._differ(batch, "it has fewer parts")
        return again

    def _check_repeat(self, batch: Batch, parts: Sequence[Part]) -> None:
        now, before = total_of(parts), batch.total
        if not now.has_rows_of(before):
            raise self._differ(batch, f"{now.rows} rows, but {before.rows} are written")

    def _differ(self, batch: Batch, how: str) -> RepeatDiffers:
        return RepeatDiffers(
            f"Batch {batch.number} of {self._settings.sink_id} was repeated with other rows ({how}). A source or the "
            "query is not deterministic: look for rand(), uuid(), a join with a table that changes, lost input. "
            + (
                f"Parts {sorted(self._missing)} are not written yet: start the query with as many partitions as before."
                if self._missing
                else "To keep what was written first, pass repeated_batch='keep'."
            )
        )

    def _release(self) -> None:
        """Fence what unused attempts have left open: consumers would wait for it until its timeout.

        Called only if nothing that is decided is still open.
        """
        try:
            runs = {name: self._settings.run_of(name) for name in self._coordinators.open_ids()}
            left = [name for name, run in runs.items() if run is not None and run <= self._log.run]
            if left:
                logger.info("Aborting what unused attempts have left open: %s", ", ".join(left))
                with Fencer(self._settings.connection) as fencer:
                    fencer.fence(left, Deadline.after(_SECONDS))
        except FencingError as error:
            logger.warning("Transactions of %s may stay open until they time out: %s", self._settings.sink_id, error)

    @property
    def _coordinators(self) -> TransactionEnder:
        if self._ender is None:
            self._ender = TransactionEnder(self._settings.connection)
        return self._ender

    def _drop_ender(self) -> None:
        if self._ender is not None:
            self._ender.close()
            self._ender = None
