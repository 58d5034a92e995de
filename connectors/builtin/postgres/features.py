"""What PostgresSource contributes to the platform: the progress of its snapshots, and Debezium's settings without
effect.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from ringfence.connectors.api import SourceOffset, SourcePartition
from ringfence.connectors.builtin.postgres import settings as names
from ringfence.connectors.builtin.postgres.offsets import (
    IncrementalState,
    PlannedTable,
    RangeProgress,
    incremental_partition,
    progress_of,
    range_partition,
    read_plan,
    state_of,
)
from ringfence.connectors.sdk.features import Features, InitialProgress, ReadOffset, Snapshots, TableProgress
from ringfence.connectors.sdk.foreign_names import DEBEZIUM

_NO_TUNING: Final = "Ringfence reads in another way, and does not need it. Remove it."
_IGNORED: Final = dict.fromkeys(
    ("connection.validation.timeout.ms", "database.server.id", "errors.max.retries",
     "event.processing.failure.handling.mode", "executor.shutdown.timeout.ms", "include.schema.changes",
     "max.queue.size", "max.queue.size.in.bytes", "min.row.count.to.stream.results", "poll.interval.ms",
     "query.fetch.size", "retriable.restart.connector.wait.ms", "schema.refresh.mode", "slot.max.retries",
     "slot.retry.delay.ms", "status.update.interval.ms", "streaming.delay.ms", "topic.cache.size",
     "xmin.fetch.interval.ms", *names.TUNING),
    _NO_TUNING,
)  # fmt: skip


class PostgresSnapshots(Snapshots):
    """The plan, the ranges and the incremental state, as tasks commit them."""

    def read_initial(self, config: Mapping[str, str], offset: ReadOffset) -> InitialProgress | None:
        server = config.get(names.PREFIX, "")
        plan = read_plan(server, offset)
        if plan is None:
            return None
        tables = [
            _describe(
                table,
                [progress_of(plan, offset(range_partition(server, table, number))) for number in range(table.ranges)],
            )
            for table in plan.tables
        ]
        return InitialProgress(plan.began_ms, tables)

    def incremental_partition(self, config: Mapping[str, str]) -> SourcePartition:
        return incremental_partition(config.get(names.PREFIX, ""))

    def read_incremental(self, offset: SourceOffset | None) -> IncrementalState:
        return state_of(offset)

    def find_refusal(self, config: Mapping[str, str]) -> str:
        if config.get(names.SNAPSHOT) == names.INITIAL_ONLY:
            return (
                f"With {names.SNAPSHOT}={names.INITIAL_ONLY} the connector does not stream, so it cannot read tables "
                "while it runs."
            )
        return ""


def _describe(table: PlannedTable, ranges: Sequence[RangeProgress]) -> TableProgress:
    rows, read = sum(one.rows for one in ranges), sum(one.done for one in ranges)
    return TableProgress(f"{table.schema}.{table.name}", rows, table.rows, table.ranges, read)


FEATURES: Final = Features(
    snapshots=PostgresSnapshots(),
    foreign_names=replace(DEBEZIUM, ignored=_IGNORED, ignored_prefixes={"driver.": _NO_TUNING}),
    sections=[
        (r"signal\..*|incremental\..*", "postgres#incremental-snapshots", "Incremental snapshots"),
        (r"snapshot\..*", "postgres#the-snapshot", "The snapshot"),
        (r"slot\..*|publication\..*", "postgres#operations-of-slots", "Operations of slots"),
    ],
)
