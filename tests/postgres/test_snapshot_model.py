"""What the stream leaves out, in a model: nothing is wrong with the rule, and something without any part of it."""

from typing import Any

import pytest

from ringfence.connectors.builtin.postgres import snapshot_content
from ringfence.connectors.builtin.postgres.offsets import RangeProgress, Segment
from ringfence.connectors.builtin.postgres.pgoutput import Change
from ringfence.connectors.builtin.postgres.snapshot_content import ReadTable, SnapshotContent, Visibility
from tests.postgres.snapshot_model import PLAN, Rules, World

SEEDS = range(120)
WRAPS = (1 << 32) - 40


def wrong_runs(rules: Rules | None = None, *, truncate: bool = False, first_xid: int = 1000) -> int:
    return sum(bool(World(seed, rules or Rules(), first_xid).run(truncate=truncate)) for seed in SEEDS)


@pytest.mark.parametrize("truncate", [False, True])
@pytest.mark.parametrize("first_xid", [1000, WRAPS, 3 * (1 << 32) - 30])
def test_every_version_once_and_in_order(truncate: bool, first_xid: int) -> None:
    assert wrong_runs(truncate=truncate, first_xid=first_xid) == 0


def test_a_transaction_that_commits_around_the_slot_is_lost_unless_it_is_waited_for() -> None:
    assert wrong_runs(Rules(wait_for_running=False)) > 0


def everything(self: SnapshotContent, change: Change, message: bytes, xid: int) -> Change | None:
    return change


def by_the_new_key_only(self: ReadTable, change: Change, message: bytes, xid: int) -> Change | None:
    key = change.after[0] if change.after is not None else (change.before or [None])[0]
    return None if self.sees((str(key),), xid) else change


def without_running(self: Visibility, xid: int) -> bool:
    return xid < self.xmax


def without_wrapping(self: Visibility, xid: int) -> bool:
    return xid < self.xmin or (xid < self.xmax and xid not in self.running)


def under_the_last_snapshot(self: RangeProgress, snapshot: str, until: int) -> RangeProgress:
    return RangeProgress(self.plan, (Segment(None, snapshot, until),), self.last, self.rows)


def never_forgetting(self: SnapshotContent, oid: int, xid: int, *, skipped: bool) -> list[Any] | None:
    table = self._tables.get(oid)
    return None if table is not None and all(view.has(xid) for view in table.views) else []


def always_told(self: SnapshotContent, oid: int, xid: int, *, skipped: bool) -> list[Any] | None:
    return []


@pytest.mark.parametrize(
    "target, name, instead, options",
    [
        (SnapshotContent, "remainder", everything, {}),
        (ReadTable, "remainder", by_the_new_key_only, {}),
        (Visibility, "has", without_running, {}),
        (Visibility, "has", without_wrapping, {"first_xid": WRAPS}),
        (RangeProgress, "begin", under_the_last_snapshot, {}),
        (SnapshotContent, "truncate", never_forgetting, {"truncate": True}),
        (SnapshotContent, "truncate", always_told, {"truncate": True}),
    ],
)
def test_something_is_wrong_without_a_part_of_the_rule(
    monkeypatch: pytest.MonkeyPatch, target: Any, name: str, instead: Any, options: dict[str, Any]
) -> None:
    monkeypatch.setattr(target, name, instead)
    assert wrong_runs(**options) > 0


def test_something_is_wrong_where_the_memory_ends_before_the_newest_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    class Forgetful(ReadTable):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            self.until = min(segment.until for one in self.ranges for segment in one.segments)

    monkeypatch.setattr(snapshot_content, "ReadTable", Forgetful)
    assert wrong_runs() > 0


def test_the_model_reads_in_several_segments() -> None:
    found = [World(seed, Rules())._read(1, False) for seed in range(20)]
    assert PLAN.tables[0].ranges == 3
    assert any(len(one.segments) > 2 for one in found)
