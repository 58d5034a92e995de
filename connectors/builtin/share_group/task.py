"""Delivers the records of a share group unchanged: the bytes of keys, values and headers, and the timestamp.

The settings are KafkaSource's, without those of an assignment, and the share group's.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from ringfence.connectors.api import (
    ConfigDef,
    ConnectorError,
    Importance,
    NonEmpty,
    RecordBatch,
    ShareInput,
    ShareRecord,
    SourceRecord,
    SourceTask,
    Width,
)
from ringfence.connectors.builtin.kafka_source import settings
from ringfence.connectors.builtin.kafka_source.cluster import ReadableTopics, source_settings, validate
from ringfence.connectors.builtin.kafka_source.task import share_of
from ringfence.connectors.builtin.kafka_source.topics import Renaming
from ringfence.connectors.sdk.kafka_settings import share_group

logger = logging.getLogger(__name__)

_LEFT_OUT: Final = frozenset({settings.ASSIGNMENT, settings.GROUP_ID, settings.SESSION_TIMEOUT_MS, settings.ISOLATION})

CONFIG_DEF: Final = ConfigDef(key for key in settings.CONFIG_DEF.keys.values() if key.name not in _LEFT_OUT)
_group: Final = CONFIG_DEF.group("Share group")


def _number(name: str, display_name: str, documentation: str) -> None:
    default, least, greatest = share_group.NUMBERS[name]
    _group.long(name, documentation, default, least, greatest, importance=Importance.LOW, display_name=display_name)


_group.text(
    share_group.GROUP,
    "The share group. Default: <group.id>-<name of the connector>. Only this connector may use it. Records have no "
    "order, not even per key.",
    None,
    validator=NonEmpty(),
    width=Width.MEDIUM,
    display_name="Share group",
)
_group.choice(
    share_group.START,
    "Where to start in a topic that the connector has not read before. Partitions that are added to a topic later, and "
    "topics that are created again, are read from their beginning.",
    (share_group.EARLIEST, share_group.LATEST),
    share_group.EARLIEST,
    display_name="Start",
)
_number(
    share_group.LOCK_MS,
    "Lock (ms)",
    "How long a record belongs to one task before another task may get it, too. A record that takes longer is "
    "processed more than once, and committed once.",
)
_number(
    share_group.DELIVERY_LIMIT,
    "Delivery limit",
    "How often the broker delivers a record before it archives it. Archived records are not lost: the sweep reads them "
    "from their topic.",
)
_number(
    share_group.MAX_LOCKS,
    "Locked records",
    "How many records of one partition all tasks together may have. With batch.size, this limits how many tasks find "
    "work in one partition.",
)
_number(
    share_group.SWEEP_AFTER_MS,
    "Sweep after (ms)",
    "After how long a record that no task has committed is read from its topic. 0: the delivery limit times the lock, "
    "and five seconds.",
)
_number(
    share_group.CLAIM_TIMEOUT_MS,
    "Claim timeout (ms)",
    "How long a task waits for another task's open transaction on the same records before it fences that task. Must "
    "exceed the duration of a transaction.",
)
_group.choice(
    share_group.EXHAUSTED,
    "What happens to a record whose processing has ended its task's process every time. retry: it is tried again, "
    "alone. dead-letter: it is written to errors.deadletterqueue.topic.name.",
    (share_group.RETRY, share_group.DEAD_LETTER),
    share_group.RETRY,
    display_name="Exhausted records",
)


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
