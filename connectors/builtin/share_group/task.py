"""Delivers the records of a share group unchanged: the bytes of keys, values and headers, and the timestamp."""

import logging
from collections.abc import Mapping, Sequence
from typing import ClassVar

from ringfence.connectors.api import ConnectorError, RecordBatch, ShareInput, ShareRecord, SourceRecord, SourceTask
from ringfence.connectors.builtin.kafka_source import settings
from ringfence.connectors.builtin.kafka_source.cluster import ReadableTopics, source_settings, validate
from ringfence.connectors.builtin.kafka_source.task import share_of
from ringfence.connectors.builtin.kafka_source.topics import Renaming
from ringfence.connectors.builtin.share_group.settings import CONFIG_DEF
from ringfence.connectors.sdk.kafka_settings import share_group

logger = logging.getLogger(__name__)


class ShareGroupSourceTask(SourceTask):
    """Each `poll` returns the records of one poll of the group, which are committed in one transaction."""

    version: ClassVar[str | None] = "1.0.0"

    def start(self, config: Mapping[str, str]) -> None:
        config_values = CONFIG_DEF.parse(config)
        self._limit = config_values.integer(settings.BATCH_SIZE)
        self._wait_s = config_values.integer(settings.POLL_MS) / 1000
        topics = sorted({topic for topic, _ in share_of(config)})
        renaming = Renaming.parse(config_values)
        self._targets = {topic: renaming.target(topic) for topic in topics}
        self._partitions: dict[tuple[str, int], dict[str, object]] = {}
        cluster = validate(source_settings(config))
        self._readable = ReadableTopics(cluster, config.get(settings.TOPICS, "").split(","), topics)
        closed = self._readable.check()
        topics = [topic for topic in topics if topic not in closed]
        self._input: ShareInput = self.context.join_share_group(
            config.get(share_group.GROUP), topics, config, cluster=cluster
        )
        logger.info("Reading %s through a share group", ", ".join(topics))

    def poll(self) -> Sequence[SourceRecord] | RecordBatch | None:
        if closed := self._readable.check():
            raise ConnectorError(
                f"The topics to read have changed: {', '.join(sorted(closed))} contains source offsets now. The task "
                "restarts without it"
            )
        records = self._input.poll(self._wait_s, self._limit)
        if not records:
            return None
        first = records[0]
        if self.context.raw_batches and all(
            record.topic == first.topic and record.partition == first.partition and not record.headers
            for record in records
        ):
            return RecordBatch(
                self._partition(first),
                {settings.OFFSET: records[-1].offset},
                self._targets[first.topic],
                [record.value for record in records],
                [record.key for record in records],
                first.partition,
                [record.timestamp_ms for record in records],
            )
        return [
            SourceRecord(
                self._partition(record),
                {settings.OFFSET: record.offset},
                self._targets[record.topic],
                record.value,
                record.key,
                record.headers,
                record.timestamp_ms if record.timestamp_ms > 0 else None,
                record.partition,
            )
            for record in records
        ]

    def _partition(self, record: ShareRecord) -> dict[str, object]:
        """Return the source partition; always the same object, which makes the record path fast."""
        one = record.topic, record.partition
        if one not in self._partitions:
            self._partitions[one] = {settings.TOPIC: record.topic, settings.PARTITION: record.partition}
        return self._partitions[one]
