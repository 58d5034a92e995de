"""Reads its share of the partitions, each from the offset after the last delivered record."""

import json
import logging
from collections import deque
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from confluent_kafka import KafkaException

from ringfence.connectors.api import (
    ConnectorError,
    GroupInput,
    ParsedConfig,
    RecordBatch,
    SourceOffset,
    SourceRecord,
    SourceTask,
    ValueBatch,
)
from ringfence.connectors.api.fetching import FetchedBatch, FetchingContext, NotFetchable, OutOfRange, Run
from ringfence.connectors.api.records import EncodedBatches
from ringfence.connectors.builtin.kafka_source import settings
from ringfence.connectors.builtin.kafka_source.cluster import (
    Cluster,
    ReadableTopics,
    consumer,
    source_settings,
    validate,
)
from ringfence.connectors.builtin.kafka_source.inputs import (
    BatchInput,
    ConsumerInput,
    Input,
    by_partition,
    error_of,
    of_records,
)
from ringfence.connectors.builtin.kafka_source.settings import CONFIG_DEF
from ringfence.connectors.builtin.kafka_source.topics import Renaming, check_other_offsets, starting_offset

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
            run.keys if any(key is not None for key in run.keys) else None,
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
