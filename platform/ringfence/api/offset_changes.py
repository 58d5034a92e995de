"""Manual changes of source offsets, for API and pages: first a snapshot, then the leader's command."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ringfence import dispatch
from ringfence.api import offset_snapshots
from ringfence.engine.leader.commands import AlterOffsets, ResetOffsets
from ringfence.engine.leader.commands.offsets import OffsetEntry
from ringfence.history.models import OffsetSnapshot
from ringfence.projection.models import Connector

Entries = Sequence[OffsetEntry]


@dataclass(frozen=True, slots=True)
class OffsetMove:
    """The result. snapshot: the number of the one taken before, None if there is none.

    checked: the connector's plugin has validated the offsets.
    """

    value: object
    snapshot: int | None

    @property
    def checked(self) -> bool:
        return isinstance(self.value, dict) and bool(self.value.get("checked"))

    def message(self, otherwise: str) -> str:
        """Return the leader's message about it."""
        match self.value:
            case {"message": str(message)} if message:
                return message
            case str(message) if message:
                return message
            case _:
                return otherwise


def movable(row: Connector) -> bool:
    """Return whether offsets may be changed now, by the database's state. The leader makes the final decision."""
    return row.target == "STOPPED" and not row.fencing and row.task_count == 0


def alter(name: str, entries: Entries, user: str, why: str = "before the offsets were changed") -> OffsetMove:
    """Set and delete offsets; those without an entry stay. Raises `Refusal`."""
    snapshot = offset_snapshots.snapshot_before_change(name, user, why)
    result = dispatch.command(AlterOffsets(name, list(entries)), user=user)
    return OffsetMove(result.value, snapshot.number if snapshot else None)


def reset(name: str, user: str) -> OffsetMove:
    """Delete every offset. Raises `Refusal`."""
    snapshot = offset_snapshots.snapshot_before_change(name, user, "before the offsets were reset")
    result = dispatch.command(ResetOffsets(name), user=user)
    return OffsetMove(result.value, snapshot.number if snapshot else None)


def restore(name: str, snapshot: OffsetSnapshot, user: str) -> tuple[OffsetMove, list[dict[str, Any]]]:
    """Restore the offsets of a snapshot. Returns the changes, too, in the format of a preview. Raises `Refusal`."""
    before = offset_snapshots.take_snapshot(name, user, f"before snapshot {snapshot.number} was restored")
    changes = offset_snapshots.changes_to(snapshot.entries, before.entries)
    value = dispatch.command(AlterOffsets(name, changes), user=user).value if changes else None
    return OffsetMove(value, before.number), offset_snapshots.preview(changes, before.entries)
