"""ShareGroupSource: the topics of a Kafka cluster as a queue, for any number of tasks (KIP-932)."""

import json
from collections.abc import Mapping, Sequence
from typing import ClassVar

from ringfence.connectors.api import (
    CatalogEntry,
    Category,
    ConfigDef,
    ConnectorError,
    ExactlyOnceSupport,
    Guarantee,
    SourceOffset,
    SourcePartition,
    SourceTask,
)
from ringfence.connectors.builtin.kafka_source import settings
from ringfence.connectors.builtin.kafka_source.connector import KafkaSourceConnector
from ringfence.connectors.builtin.share_group.task import CONFIG_DEF, ShareGroupSourceTask
from ringfence.connectors.sdk.delivery import DEAD_LETTERS, TRANSACTION_BOUNDARY, transaction_boundary
from ringfence.connectors.sdk.kafka_settings import share_group

_WHOLE = ("topic_id", "partition")


class ShareGroupSourceConnector(KafkaSourceConnector):
    """Reads topics through a share group, each record once across all tasks, without an order.

    Every task reads every topic; the broker decides which task gets which record. Topics are created at the target as
    by KafkaSource.
    """

    version: ClassVar[str] = "1.0.0"
    aliases: ClassVar[tuple[str, ...]] = ()
    catalog: ClassVar[CatalogEntry | None] = CatalogEntry(
        title="Topics as a queue",
        summary="Any number of tasks per partition, through a share group (KIP-932), without an order.",
        category=Category.KAFKA,
        guarantee=Guarantee.EXACTLY_ONCE,
        needs=("Share groups at the source cluster (share.version 1 or later).",),
        sample={
            "tasks.max": "4",
            "topics": "jobs",
            "source.cluster.bootstrap.servers": "kafka.example.com:9092",
        },
        icon="list-todo",
        selects=(settings.TOPICS,),
    )

    @classmethod
    def config_def(cls) -> ConfigDef:
        return CONFIG_DEF

    @classmethod
    def task_class(cls) -> type[SourceTask]:
        return ShareGroupSourceTask

    def divide(self, topics: Mapping[str, int], max_tasks: int) -> list[dict[str, str]]:
        """Return as many tasks as allowed, regardless of the number of partitions."""
        if not topics:
            return []
        return [{**self._config, settings.TASK_TOPICS: json.dumps(topics, separators=(",", ":"))}] * max_tasks

    def validate(self, config: Mapping[str, str]) -> Mapping[str, Sequence[str]]:
        errors = dict(super().validate(config))
        boundary = transaction_boundary(config)
        if boundary != "poll":
            errors[TRANSACTION_BOUNDARY] = [
                f"{TRANSACTION_BOUNDARY}={boundary}: the records of an open transaction are locked, and other tasks "
                "wait for them. Use poll; batch.size sets the number of records per transaction."
            ]
        needed = f"{share_group.EXHAUSTED}={share_group.DEAD_LETTER}"
        if config.get(share_group.EXHAUSTED) == share_group.DEAD_LETTER and (
            not config.get(DEAD_LETTERS, "").strip() or config.get("errors.tolerance", "none").strip().lower() != "all"
        ):
            errors[share_group.EXHAUSTED] = [
                f"{needed} needs a topic for dead letters: set {DEAD_LETTERS} and errors.tolerance=all, or use retry."
            ]
        return errors

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport | None:
        """Supported, regardless of the share group: the ledger decides."""
        return ExactlyOnceSupport.SUPPORTED

    def alter_offsets(
        self, config: Mapping[str, str], offsets: Sequence[tuple[SourcePartition, SourceOffset | None]]
    ) -> bool:
        """A partition is a topic's id and a number. Records before `low` or in `done` are not read again."""
        for partition, offset in offsets:
            if offset is None:
                continue
            if sorted(partition) != sorted(_WHOLE) or not isinstance(partition["topic_id"], str):
                raise ConnectorError(
                    f"The partition {dict(partition)} must have a topic's id under 'topic_id' and a number under "
                    "'partition', as GET shows them."
                )
            for what, holder, key in (("partition", partition, "partition"), ("offset", offset, "low")):
                number = holder.get(key)
                if not isinstance(number, int) or isinstance(number, bool) or number < 0:
                    raise ConnectorError(f"The {what} {dict(holder)} must have a non-negative integer under {key!r}.")
            done = offset.get("done", [])
            if not isinstance(done, list) or not all(_is_range(one) for one in done):
                raise ConnectorError(f"The offset {dict(offset)} must have a list of [first, last] under 'done'.")
        return True


def _is_range(one: object) -> bool:
    if not isinstance(one, list) or len(one) != 2:
        return False
    first, last = one
    return isinstance(first, int) and isinstance(last, int) and 0 <= first <= last
