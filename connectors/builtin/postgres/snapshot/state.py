"""Reads a snapshot's state from the committed offsets: whether to read it, its progress, and what its rows contain."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ringfence.connectors.api import ConnectorError, SourceOffset, SourcePartition
from ringfence.connectors.builtin.postgres import setting_names as names
from ringfence.connectors.builtin.postgres.catalog import Query
from ringfence.connectors.builtin.postgres.snapshot.content import SnapshotContent
from ringfence.connectors.builtin.postgres.snapshot.key_order import order_of
from ringfence.connectors.builtin.postgres.snapshot.plan import Plan, range_partition, read_plan
from ringfence.connectors.builtin.postgres.snapshot.range_offsets import RangeProgress, progress_of


@dataclass(frozen=True, slots=True)
class SnapshotState:
    """The state of a snapshot. committed: the stream's offset; plan: of the snapshot that the mode requires; ranges: by
    oid and number; wanted: there is something left to read, or to plan.
    """

    server: str
    committed: SourceOffset | None
    plan: Plan | None
    ranges: Mapping[tuple[int, int], RangeProgress] = field(default_factory=dict)
    has_work: bool = False

    @property
    def complete(self) -> bool:
        """Whether every range is read and committed."""
        return self.plan is not None and all(one.done for one in self.ranges.values())

    def new_contained(self, query: Query, position: int) -> SnapshotContent | None:
        """Return what the stream must skip from this position; None if it has passed all of that."""
        if self.plan is None:
            return None
        content = SnapshotContent(
            self.server, self.plan, self.ranges, lambda table, bounds: order_of(query, table, bounds)
        )
        return content if content.until > position else None


def find_state(server: str, mode: str, offset: Callable[[SourcePartition], SourceOffset | None]) -> SnapshotState:
    """Return the state in the offsets. Raises `ConnectorError` for invalid offsets, and if they do not fit the mode."""
    committed = offset({"server": server})
    plan = read_plan(server, offset)
    if plan is not None and mode in (names.INITIAL, names.WHEN_NEEDED) and committed is None:
        plan = None  # from a snapshot without a stream (initial_only): later changes are unknown
    if plan is None:
        return SnapshotState(server, committed, None, has_work=mode != names.NO_DATA and committed is None)
    ranges = {
        (table.oid, number): progress_of(plan, offset(range_partition(server, table, number)))
        for table, number in plan.ranges()
    }
    state = SnapshotState(server, committed, plan, ranges)
    if state.complete:
        return state
    if mode == names.NO_DATA:
        raise ConnectorError(
            f"A snapshot is unfinished, and {names.SNAPSHOT}={mode} does not continue it. Set {names.SNAPSHOT}="
            f"{names.INITIAL}; or stop the connector and reset its offsets, to start without a snapshot."
        )
    return SnapshotState(server, committed, plan, ranges, has_work=True)
