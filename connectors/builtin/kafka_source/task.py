"""Reads its share of the partitions, each from the offset after the last delivered record."""

import json
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import ClassVar, Final, Protocol, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from ringfence.connectors.api import (
    ConnectorError,
    GroupInput,
    InputRecord,
    ParsedConfig,
    RecordBatch,
    RetriableError,
    SourceMetrics,
    SourceOffset,
    SourceRecord,
    SourceTask,
    ValueBatch,
)
from ringfence.connectors.api.fetching import (
    NO_TOPIC,
    NOT_ALLOWED,
    BatchReader,
    FetchedBatch,
    FetchingContext,
    NotFetchable,
    OutOfRange,
    Place,
    Run,
)
from ringfence.connectors.api.records import EncodedBatches
from ringfence.connectors.builtin.kafka_source import settings
from ringfence.connectors.builtin.kafka_source.cluster import (
    Cluster,
    ReadableTopics,
    consumer,
    source_settings,
    validate,
)
from ringfence.connectors.builtin.kafka_source.settings import CONFIG_DEF
from ringfence.connectors.builtin.kafka_source.topics import Renaming, check_other_offsets, starting_offset

_TIME: Final = itemgetter(1)
"""Of a message's timestamp, behind its kind."""


def of_messages(run: Sequence[Message]) -> Run:
    return Run(
        str(run[0].topic()),
        int(run[0].partition() or 0),
        # Each record takes a call for each column: this is the quickest way to make it.
        list(map(Message.value, run)),
        list(map(Message.key, run)),
        list(map(Message.headers, run)),
        list(map(_TIME, map(Message.timestamp, run))),
        list(map(Message.offset, run)),  # type: ignore[arg-type]  # None only for events
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


logger = logging.getLogger(__name__)

HEADER_CONVERTER: Final = "header.converter"
_RAW_HEADERS: Final = "ByteArrayConverter"


class KafkaSourceTask(SourceTask):
    """Delivers records unchanged: the bytes of keys, values and headers, the timestamp, and the partition number.

    If converters and transforms keep bytes unchanged, the record batches of the source go out as they came, where they
    can (`inputs.BatchInput`), and the other records of a partition as one batch.
    """

    version: ClassVar[str | None] = "1.0.0"
    _input: Input | None = None  # so that stop() can follow a failed start
    _group: GroupInput | None = None  # the framework's: it leaves the group itself

    def start(self, config: Mapping[str, str]) -> None:
        config_values = CONFIG_DEF.parse(config)
        self._settings = validate(source_settings(config))
        self._alias = config_values.string(settings.SOURCE_ALIAS)
        self._batch_size = (
            settings.DEFAULT_BATCH_SIZE
            if config_values[settings.BATCH_SIZE] is None
            else config_values.integer(settings.BATCH_SIZE)
        )
        self._wait_s = config_values.integer(settings.POLL_MS) / 1000
        self._isolation = config_values.string(settings.ISOLATION)
        self._raw_headers = config.get(HEADER_CONVERTER, "").rpartition(".")[2] == _RAW_HEADERS
        self._ready: deque[tuple[str, RecordBatch | ValueBatch]] = deque()
        self._rename = Renaming.parse(config_values).target
        self._targets: dict[str, str] = {}
        self._partitions: dict[tuple[str, int], dict[str, object]] = {}
        assignment = config_values.string(settings.ASSIGNMENT)
        share = share_of(config)
        topic_names = config.get(settings.TOPICS, "").split(",")
        self._readable = ReadableTopics(self._settings, topic_names, {topic for topic, _ in share})
        closed = self._find_closed()
        share = [one for one in share if one[0] not in closed]
        delivered = {one: parse_offset(self.context.offset_reader.offset(self._partition(one))) for one in share}
        grouped = self._group_offsets(assignment, group_of(config), delivered)
        if assignment == settings.GROUP:
            first = {one: last + 1 for one, last in delivered.items() if last is not None and one not in grouped}
            self._group = self.context.join_group(
                group_of(config),
                sorted({topic for topic, _ in share}),
                session_timeout_ms=config_values.integer(settings.SESSION_TIMEOUT_MS),
                first=first,
            )
            logger.info("Reading %d partitions with consumer group %s", len(share), group_of(config))
            return
        self._input = self._open_input(config_values)
        if share:
            self._go_on(delivered)
        logger.info("Reading %d partitions", len(share))

    def _open_input(self, config_values: ParsedConfig) -> Input:
        context = self.context
        if (why := self._why_single()) is None:
            assert isinstance(context, FetchingContext)
            reader = context.read_batches(self._settings, self._isolation)
            limit = None if config_values[settings.BATCH_SIZE] is None else self._batch_size
            records = "Record batches" if self._raw_headers else "Record batches without headers"
            logger.info("%s go out as they came, where they can", records)
            return BatchInput(reader, limit, context.metrics, keeps_headers=self._raw_headers)
        logger.info("Record batches are taken apart: %s", why)
        return ConsumerInput(consumer(self._settings, self._isolation), self._batch_size)

    def _why_single(self) -> str | None:
        """Return why no record batch can go out as it came; None if they may."""
        if not self.context.raw_batches:
            return "a converter or a transform changes records"
        if not isinstance(self.context, FetchingContext) or not self.context.encoded_batch_bytes:
            return "only tasks with transactions write them whole"
        return "the task wants to know each record's position" if self.wants_positions else None

    def _partition(self, one: tuple[str, int]) -> dict[str, object]:
        """Return the source partition; always the same object, which makes the record path fast."""
        if one not in self._partitions:
            self._partitions[one] = {settings.CLUSTER: self._alias, settings.TOPIC: one[0], settings.PARTITION: one[1]}
            self._targets[one[0]] = self._rename(one[0])
        return self._partitions[one]

    def _group_offsets(
        self, assignment: str, group: str, delivered: Mapping[tuple[str, int], int | None]
    ) -> dict[tuple[str, int], int]:
        """Return the group's offsets. Raises if the other way of storing offsets is ahead of this one."""
        try:
            grouped = Cluster(self._settings).group_offsets(group, list(delivered))
        except KafkaException as error:
            raise error_of(error.args[0], f"The offsets of consumer group {group} cannot be read") from error
        try:
            check_other_offsets(assignment, group, delivered, grouped)
        except ValueError as error:
            raise ConnectorError(str(error)) from error
        return grouped

    def _go_on(self, delivered: Mapping[tuple[str, int], int | None]) -> None:
        """Assign these partitions, each after its last delivered record, or at its current beginning."""
        assert self._input is not None
        try:
            bounds = Cluster(self._settings).bounds(list(delivered))
        except KafkaException as error:
            raise error_of(error.args[0], "The partitions to read cannot be described") from error
        places = {}
        for (topic, partition), last in delivered.items():
            try:
                offset, warning = starting_offset(
                    f"Partition {partition} of topic {topic}", last, *bounds[topic, partition]
                )
            except ValueError as error:
                raise ConnectorError(str(error)) from error
            if warning:
                logger.warning("%s", warning)
            places[topic, partition] = offset
        self._input.assign(places)

    def _find_closed(self) -> frozenset[str]:
        try:
            return self._readable.check()
        except KafkaException as error:
            raise error_of(error.args[0], "The source cluster cannot be reached") from error

    def _leave_out(self, closed: frozenset[str]) -> None:
        """Stop reading these topics, and drop their records that were already read."""
        if self._group is not None:
            raise ConnectorError(
                f"The topics to read have changed: {', '.join(sorted(closed))} contains source offsets now. The task "
                "restarts without it"
            )
        assert self._input is not None
        left_out = [one for one in self._partitions if one[0] in closed]
        self._input.unassign(left_out)
        for one in left_out:
            del self._partitions[one]
        self._ready = deque(each for each in self._ready if each[0] not in closed)

    def poll(self) -> Sequence[SourceRecord] | RecordBatch | None:
        if closed := self._find_closed():
            self._leave_out(closed)
        if self._ready:
            return self._ready.popleft()[1]
        if self._group is not None:
            records = self._group.poll(self._wait_s, self._batch_size)
            for part in by_partition(records, lambda record: (record.topic, record.partition)):
                self.take_run(of_records(part))
            return self._ready.popleft()[1] if self._ready else None
        self._read()
        if self._ready:
            return self._ready.popleft()[1]
        self.has_answered = self._input is None or self._input.has_answered
        return None

    def _read(self) -> None:
        assert self._input is not None
        try:
            self._input.poll(self._wait_s, self)
        except OutOfRange as lost:
            self._go_on({lost.place: self._last_before(lost)})
        except NotFetchable as error:
            assert isinstance(self._input, BatchInput)
            logger.warning("Record batches are taken apart from here on: %s", error)
            positions = self._input.positions
            self._input.close()
            self._input = ConsumerInput(consumer(self._settings, self._isolation), self._batch_size)
            self._input.assign(positions)

    def _last_before(self, lost: OutOfRange) -> int | None:
        """Return the last delivered offset of a partition that has lost records while it was read."""
        if lost.position > 0:
            return lost.position - 1
        return parse_offset(self.context.offset_reader.offset(self._partitions[lost.place]))

    def take_run(self, run: Run) -> None:
        self._ready.append((run.topic, self._batch(run)))

    def take_whole(self, batches: Sequence[FetchedBatch]) -> None:
        topic = batches[0].topic
        offsets = [(self._partition((topic, batch.partition)), {settings.OFFSET: batch.last}) for batch in batches]
        target = self._targets[topic]
        self._ready.append((topic, EncodedBatches(offsets, [batch.encode_for(target) for batch in batches])))

    def _batch(self, run: Run) -> RecordBatch | ValueBatch:
        source, target = self._partition((run.topic, run.partition)), self._targets[run.topic]
        with_headers = any(run.headers)
        if self.context.raw_batches and (self._raw_headers or not with_headers):
            offset = {settings.OFFSET: run.offsets[-1]}
            headers = run.headers if with_headers else None
            return RecordBatch(source, offset, target, run.values, run.keys, run.partition, run.times, headers)
        return ValueBatch(
            source,
            {settings.OFFSET: run.offsets[-1]},
            target,
            None,
            run.values,
            lambda number: {settings.OFFSET: run.offsets[number]},
            run.times if min(run.times) > 0 else [time if time > 0 else None for time in run.times],
            run.partition,
            run.keys if run.keys.count(None) < len(run.keys) else None,
            run.headers if with_headers else None,
        )

    def stop(self) -> None:
        if self._input is not None:
            self._input.close()
            self._input = None


def parse_offset(offset: SourceOffset | None) -> int | None:
    """Return the last record's offset of a source offset. Raises `ConnectorError` if it is not KafkaSource's."""
    if offset is None:
        return None
    number = offset.get(settings.OFFSET)
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise ConnectorError(
            f"The committed source offset {dict(offset)} has no integer under {settings.OFFSET!r}. "
            "Stop the connector and alter or reset its offsets."
        )
    return number


def share_of(config: Mapping[str, str]) -> list[tuple[str, int]]:
    """Return the partitions that a task may read: its own; with a consumer group, all."""
    if settings.TASK_TOPICS in config:
        topics = json.loads(config[settings.TASK_TOPICS])
        return [(str(topic), partition) for topic, count in topics.items() for partition in range(int(count))]
    return [(str(topic), int(partition)) for topic, partition in json.loads(config[settings.TASK_PARTITIONS])]


def group_of(config: Mapping[str, str]) -> str:
    """Return the consumer group of the assignment `group`."""
    return config.get(settings.GROUP_ID) or f"ringfence-{config.get('name', '')}"
