"""How a task reads its partitions: as record batches that may go out whole, or with a consumer, record by record. Both
deliver runs: records of one partition by columns.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Final, Protocol, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from ringfence.connectors.api import ConnectorError, InputRecord, RetriableError, SourceMetrics
from ringfence.connectors.api.fetching import NO_TOPIC, NOT_ALLOWED, BatchReader, FetchedBatch, OutOfRange, Place, Run
from ringfence.connectors.builtin.kafka_source import settings


def of_messages(run: Sequence[Message]) -> Run:
    return Run(
        str(run[0].topic()),
        int(run[0].partition() or 0),
        [message.value() for message in run],
        [message.key() for message in run],
        [message.headers() for message in run],
        [message.timestamp()[1] for message in run],
        [message.offset() for message in run],  # type: ignore[misc]  # None only for events
    )


def of_records(run: Sequence[InputRecord]) -> Run:
    return Run(
        run[0].topic,
        run[0].partition,
        [record.value for record in run],
        [record.key for record in run],
        [record.headers for record in run],
        [record.timestamp_ms for record in run],
        [record.offset for record in run],
    )


def divide(run: Run, most: int) -> Iterable[Run]:
    """Yield the records in runs of at most `most` records."""
    for start in range(0, len(run.offsets), most):
        yield run.part(slice(start, start + most))


Record = TypeVar("Record")


def by_partition(records: Sequence[Record], where: Callable[[Record], object]) -> list[Sequence[Record]]:
    """Group records by partition; the order within a partition is kept."""
    if not records:
        return []
    if len(set(map(where, records))) == 1:
        return [records]
    runs: dict[object, list[Record]] = {}
    for record in records:
        runs.setdefault(where(record), []).append(record)
    return list(runs.values())


BATCH_SIZE_OBSTACLE: Final = "batch_size"
"""A batch has more records than the connector's `batch.size`."""
HEADERS_OBSTACLE: Final = "headers"
"""Records have headers, which the header converter may change."""
_MOST_TOGETHER: Final = settings.DEFAULT_BATCH_SIZE
"""Unless `batch.size` is set: so many records of whole batches come from one `poll`, or those of one batch."""
_DENIED: Final = frozenset(
    {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError._AUTHENTICATION}
)


_PROBE_SECONDS: Final = 2.0
_PROBES_EVERY: Final = 3.0
"""Seconds without a record, after which a broker is asked whether it is there."""


class Taker(Protocol):
    """Gets what was read, in order for each partition."""

    def take_run(self, run: Run) -> None: ...

    def take_whole(self, batches: Sequence[FetchedBatch]) -> None:
        """Take batches of one topic that can be written as they are."""
        ...


class Input(Protocol):
    """Reads partitions. After `poll` has raised an error, what was read before it has been taken."""

    @property
    def has_answered(self) -> bool:
        """Whether the source answers: then a `poll` without records means that there are none."""
        ...

    def assign(self, positions: Mapping[Place, int]) -> None:
        """Read these partitions, too, from an offset on."""
        ...

    def unassign(self, places: Sequence[Place]) -> None: ...

    def poll(self, seconds: float, taker: Taker) -> None:
        """Wait for the first record only. Raises `ConnectorError`, `RetriableError`, `OutOfRange`."""
        ...

    def close(self) -> None: ...


class BatchInput:
    """Record batches. Raises `NotFetchable` where brokers are too old for that."""

    def __init__(
        self, reader: BatchReader, batch_size: int | None, metrics: SourceMetrics, *, keeps_headers: bool = True
    ) -> None:
        """batch_size: the most records that may come from one `poll`, None for one whole batch at least. keeps_headers:
        whether headers go out as they came, so that records need not be looked at.
        """
        self._reader = reader
        self._limit = batch_size
        self._together = batch_size or _MOST_TOGETHER
        self._metrics = metrics
        self._keeps_headers = keeps_headers
        self._whole = 0
        self._taken_out: dict[str, int] = {}
        self.assign = reader.add
        self.unassign = reader.remove
        self.close = reader.close
        self._tell_whole(0)

    @property
    def positions(self) -> Mapping[Place, int]:
        return self._reader.positions

    @property
    def has_answered(self) -> bool:
        return self._reader.has_answered

    def poll(self, seconds: float, taker: Taker) -> None:
        batches = self._reader.poll(seconds)
        for (_, partition), successive in groupby(batches, lambda batch: (batch.topic, self._place_apart(batch))):
            group = list(successive)
            if partition is None:
                for part in self._parts(group):
                    taker.take_whole(part)
                self._tell_whole(sum(batch.count for batch in group))
            else:
                for run in divide(self._take_apart(group), self._together):
                    taker.take_run(run)

    def _place_apart(self, batch: FetchedBatch) -> int | None:
        """Return the partition of a batch that cannot go whole, None for one that can."""
        return batch.partition if self._obstacle(batch) else None

    def _obstacle(self, batch: FetchedBatch) -> str:
        if batch.obstacle:
            return batch.obstacle
        if self._limit is not None and batch.count > self._limit:
            return BATCH_SIZE_OBSTACLE
        return "" if self._keeps_headers or not batch.has_headers else HEADERS_OBSTACLE

    def _parts(self, batches: Iterable[FetchedBatch]) -> Iterable[list[FetchedBatch]]:
        """Divide batches into those that one `poll` returns."""
        part: list[FetchedBatch] = []
        count = 0
        for batch in batches:
            if part and count + batch.count > self._together:
                yield part
                part, count = [], 0
            part.append(batch)
            count += batch.count
        yield part

    def _take_apart(self, batches: Sequence[FetchedBatch]) -> Run:
        """Return the records of batches of one partition, and tell how many."""
        run = Run.empty(batches[0].topic, batches[0].partition)
        counts: dict[str, int] = {}
        for batch in batches:
            before = len(run.offsets)
            batch.add_to(run)
            why = self._obstacle(batch)
            counts[why] = counts.get(why, 0) + len(run.offsets) - before
        for why, count in counts.items():
            self._tell_single(why, count)
        return run

    def _tell_whole(self, count: int) -> None:
        self._whole += count
        text = "Records that went out in the record batches of their source, as they came"
        self._metrics.gauge("records_in_whole_batches", text).set(self._whole)

    def _tell_single(self, why: str, count: int) -> None:
        self._taken_out[why] = self._taken_out.get(why, 0) + count
        text = "Records that were taken out of the record batches of their source, which could not go out as they came"
        self._metrics.gauge("records_out_of_batches", text, labels={"why": why}).set(self._taken_out[why])


class ConsumerInput:
    """Single records, by librdkafka, which does not tell a broker with nothing new from one that is away."""

    def __init__(self, consumer: Consumer, batch_size: int) -> None:
        self._consumer = consumer
        self._batch_size = batch_size
        self._places: set[Place] = set()
        self._next_probe = 0.0
        self.has_answered = True

    def assign(self, positions: Mapping[Place, int]) -> None:
        self._places |= positions.keys()
        self._consumer.incremental_assign([TopicPartition(*place, offset) for place, offset in positions.items()])

    def unassign(self, places: Sequence[Place]) -> None:
        self._places -= set(places)
        self._consumer.incremental_unassign([TopicPartition(*place) for place in places])

    def poll(self, seconds: float, taker: Taker) -> None:
        # `consume` waits until it has the requested number, so this waits for the first record only.
        first = self._consumer.poll(seconds)
        if first is None:
            self._probe()
            return
        self.has_answered, self._next_probe = True, time.monotonic() + _PROBES_EVERY
        messages = [first, *self._consumer.consume(self._batch_size - 1, 0.0)] if self._batch_size > 1 else [first]
        failed = [message for message in messages if message.error() is not None]
        if failed:
            messages = [message for message in messages if message.error() is None]
        for run in self._runs(messages):
            taker.take_run(of_messages(run))
        for message in failed:
            self._raise(message)

    def _probe(self) -> None:
        """Ask a broker for the end of a partition, from time to time. Raises `RetriableError` without an answer."""
        if not self._places or time.monotonic() < self._next_probe:
            return
        self.has_answered = False
        place = next(iter(self._places))
        try:
            self._consumer.get_watermark_offsets(TopicPartition(*place), _PROBE_SECONDS, cached=False)
        except KafkaException as error:
            raise error_of(error.args[0], "The source cluster cannot be reached") from error
        finally:
            self._next_probe = time.monotonic() + _PROBES_EVERY
        self.has_answered = True

    def _runs(self, messages: list[Message]) -> list[Sequence[Message]]:
        """Group the messages by partition, unless only one partition is read."""
        if len(self._places) == 1 and messages:
            return [messages]
        return by_partition(messages, lambda message: (message.topic(), message.partition()))

    def _raise(self, message: Message) -> None:
        error = message.error()
        assert error is not None
        place = (str(message.topic()), int(message.partition() or 0))
        if error.code() == KafkaError._AUTO_OFFSET_RESET and place in self._places:
            position = self._consumer.position([TopicPartition(*place)])[0].offset
            self.unassign([place])
            raise OutOfRange(place, position)
        if error.code() != KafkaError._PARTITION_EOF:
            raise error_of(error, f"Topic {place[0]} cannot be read")

    def close(self) -> None:
        self._consumer.close()


def error_of(error: KafkaError, doing: str) -> ConnectorError:
    """Return the error to raise: retriable if the client recovers by itself, or the next attempt may succeed."""
    text = f"{doing}: {error.str()}"
    if error.code() in _DENIED:
        return ConnectorError(f"{text}. {NOT_ALLOWED}")
    if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
        return RetriableError(f"{text}. {NO_TOPIC}")
    return RetriableError(text) if error.retriable() or error.code() < 0 else ConnectorError(text)
