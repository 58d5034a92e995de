"""The initial snapshot of a connector that has one, for pages: its committed tables and ranges."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from ringfence.api.incremental_snapshots import find_measured, percent_of
from ringfence.connectors.api import ConnectorError, SourceOffset, SourcePartition
from ringfence.connectors.sdk.features import TableProgress, features_of
from ringfence.projection import offset_rows
from ringfence.projection.models import Connector, Task, pack
from ringfence.projection.offset_rows import TooManyOffsets

_GAUGE = "snapshot_"


@dataclass(frozen=True, slots=True)
class InitialSnapshot:
    """measured: the first task's gauges, by their names without the prefix `snapshot_`, during the snapshot. problem:
    why the progress is unknown, "" if it is known.
    """

    began_ms: int = 0
    tables: tuple[TableProgress, ...] = ()
    measured: dict[str, float] = field(default_factory=dict)
    problem: str = ""

    @property
    def rows(self) -> int:
        return sum(one.rows for one in self.tables)

    @property
    def ranges(self) -> int:
        return sum(one.ranges for one in self.tables)

    @property
    def ranges_read(self) -> int:
        return sum(one.ranges_read for one in self.tables)

    @property
    def finished(self) -> bool:
        return not self.problem and self.ranges == self.ranges_read

    @property
    def percent(self) -> int | None:
        """Percentage of the rows, by the database's estimate; None without one."""
        left = sum(max(0, one.rows_estimated - one.rows) for one in self.tables if not one.finished)
        return percent_of(self.rows, left)


def find_initial_snapshot(row: Connector, tasks: Sequence[Task]) -> InitialSnapshot | None:
    """Return the snapshot; None if none was planned: with snapshot.mode=no_data, or not yet."""
    snapshots = features_of(row.class_name).snapshots
    if snapshots is None:
        return None
    try:
        committed = dict(offset_rows.read(row.name))
    except TooManyOffsets as error:
        return InitialSnapshot(problem=str(error))

    def read(partition: SourcePartition) -> SourceOffset | None:
        offset = committed.get(pack(partition))
        return None if offset is None else json.loads(offset)

    try:
        progress = snapshots.read_initial(row.settings, read)
    except ConnectorError as error:
        return InitialSnapshot(problem=str(error))
    if progress is None:
        return None
    unfinished_first = tuple(sorted(progress.tables, key=lambda one: one.finished))
    done = all(one.finished for one in progress.tables)
    return InitialSnapshot(progress.began_ms, unfinished_first, {} if done else find_measured(tasks, _GAUGE))
