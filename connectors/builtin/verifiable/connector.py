"""VerifiableSource: the counterpart of Kafka's VerifiableSourceConnector."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from ringfence.connectors.api import (
    CatalogEntry,
    Category,
    ConnectorError,
    ExactlyOnceSupport,
    Guarantee,
    PositionPaths,
    SourceConnector,
    SourceOffset,
    SourcePartition,
)
from ringfence.connectors.builtin.verifiable.task import (
    COMPLETE_RECORD_DATA,
    CONFIG_DEF,
    ID,
    SEQNO,
    VerifiableSourceTask,
    next_number,
)


class VerifiableSourceConnector(SourceConnector):
    """As many tasks as allowed, each with its own count."""

    version: ClassVar[str] = "1.0.0"
    reads_offsets = False
    own_settings = CONFIG_DEF
    task_type = VerifiableSourceTask
    aliases: ClassVar[tuple[str, ...]] = ("org.apache.kafka.connect.tools.VerifiableSourceConnector",)
    preview_while_running = True
    catalog: ClassVar[CatalogEntry | None] = CatalogEntry(
        title="Numbers for tests",
        summary="Counts without a gap, to check that no number is missing or repeated.",
        category=Category.TESTS,
        guarantee=Guarantee.EXACTLY_ONCE,
        sample={"tasks.max": "1", "topic": "numbers", "throughput": "100"},
        icon="hash",
    )

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [{**self.config, ID: str(number)} for number in range(max_tasks)]

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport | None:
        return ExactlyOnceSupport.SUPPORTED

    def record_positions(self, config: Mapping[str, str]) -> PositionPaths | None:
        """Return the paths of the number in each value, and of the task that counts it."""
        if CONFIG_DEF.parse(config).boolean(COMPLETE_RECORD_DATA):
            return PositionPaths("value.seqno", ("value.task",))
        return PositionPaths("value", ("key",))

    def count_records(self, config: Mapping[str, str], partition: SourcePartition, offset: SourceOffset) -> int | None:
        """Return the count of numbers from 0 up to the committed one."""
        return next_number(offset)

    def alter_offsets(
        self, config: Mapping[str, str], offsets: Sequence[tuple[SourcePartition, SourceOffset | None]]
    ) -> bool:
        """Accept the deletion of any offset; a new one needs the task's number and the last number delivered."""
        for partition, offset in offsets:
            if offset is None:
                continue
            for what, holder, key in (("partition", partition, ID), ("offset", offset, SEQNO)):
                number = holder.get(key)
                if not isinstance(number, int) or isinstance(number, bool) or number < 0:
                    raise ConnectorError(f"The {what} {dict(holder)} must have a non-negative integer under {key!r}.")
        return True
