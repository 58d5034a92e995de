"""A model: a database under writers, a snapshot read from it in ranges by tasks that die, and the stream behind it.

What decides is the real thing: `Visibility`, `RangeProgress`, `SnapshotContent`. The database is the model: a
transaction takes its id, changes rows, writes its commit record (which fixes its place in the stream), and only then
becomes visible to snapshots. So between the two the stream has a change that no snapshot sees, as in PostgreSQL.
"""

import random
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ringfence.connectors.builtin.postgres.offsets import Plan, PlannedTable, RangeProgress
from ringfence.connectors.builtin.postgres.pgoutput import Change, Relation, RelationColumn, decode
from ringfence.connectors.builtin.postgres.snapshot_content import PythonOrder, SnapshotContent

OID = 7
KEYS = 24
TABLE = PlannedTable(OID, "public", "t", ("id",), (("7",), ("15",)), KEYS)
PLAN = Plan("p", 0, (TABLE,))
RELATION = Relation(OID, "public", "t", "d", (RelationColumn("id", True, 23, -1), RelationColumn("v", False, 23, -1)))
_MASK = 0xFFFFFFFF


class _Readers:
    readers = (int, int)


def _tuple(row: Sequence[int | None]) -> bytes:
    parts = [struct.pack(">h", len(row))]
    for value in row:
        text = b"" if value is None else str(value).encode()
        parts.append(b"n" if value is None else b"t" + struct.pack(">i", len(text)) + text)
    return b"".join(parts)


def insert(key: int, version: int) -> bytes:
    return b"I" + struct.pack(">I", OID) + b"N" + _tuple((key, version))


def update(old: int, key: int, version: int) -> bytes:
    before = b"" if old == key else b"K" + _tuple((old, None))
    return b"U" + struct.pack(">I", OID) + before + b"N" + _tuple((key, version))


def delete(key: int) -> bytes:
    return b"D" + struct.pack(">I", OID) + b"K" + _tuple((key, None))


TRUNCATE = b"T"


@dataclass
class Transaction:
    xid: int
    changes: list[bytes] = field(default_factory=list)
    rows: dict[int, int | None] = field(default_factory=dict)
    """Of the keys that it has locked: the new version; None where the row is gone."""
    truncates: bool = False
    lsn: int | None = None


@dataclass
class Rules:
    """What may be left out."""

    wait_for_running: bool = True


class World:
    """One run. `log` is what a consumer sees: (op, key, version)."""

    def __init__(self, seed: int, rules: Rules, first_xid: int = 1000) -> None:
        self.choice = random.Random(seed)
        self.rules = rules
        self.rows = {key: 0 for key in range(KEYS) if key % 3}
        self.next_xid = first_xid
        self.running: list[Transaction] = []
        self.wal: list[Transaction] = []
        self.slot = 0
        self.log: list[tuple[str, int, int]] = []

    # The database

    def locked(self) -> set[int]:
        return {key for one in self.running for key in one.rows}

    def snapshot(self) -> str:
        xids = sorted(one.xid for one in self.running)
        return f"{min([*xids, self.next_xid])}:{self.next_xid}:{','.join(map(str, xids))}"

    def write(self, *, truncate: bool) -> None:
        """One step of some transaction."""
        what = self.choice.random()
        if truncate and what < 0.06 and not any(one.rows or one.truncates for one in self.running):
            self.running.append(Transaction(self._xid(), [TRUNCATE], truncates=True))
        elif what < 0.3 and len(self.running) < 5 and not any(one.truncates for one in self.running):
            self.running.append(Transaction(self._xid()))
        elif self.running:
            one = self.choice.choice(self.running)
            if one.lsn is not None:
                self._leave(one)
            elif self.choice.random() < 0.35:
                one.lsn = len(self.wal)
                self.wal.append(one)
            elif not one.truncates:
                self._change(one)

    def _xid(self) -> int:
        self.next_xid += 1
        return self.next_xid - 1

    def _change(self, one: Transaction) -> None:
        taken = self.locked() - set(one.rows)
        if any(other.truncates for other in self.running):
            return
        seen = {**self.rows, **one.rows}
        key, other = (self.choice.randrange(KEYS) for _ in range(2))
        if {key, other} & taken:
            return
        version, what = seen.get(key), self.choice.random()
        if version is None:
            one.changes.append(insert(key, 0))
            one.rows[key] = 0
        elif what < 0.2:
            one.changes.append(delete(key))
            one.rows[key] = None
        elif what < 0.5 and seen.get(other) is None and key != other:
            one.changes.append(update(key, other, version + 1))
            one.rows |= {key: None, other: version + 1}
        else:
            one.changes.append(update(key, key, version + 1))
            one.rows[key] = version + 1

    def _leave(self, one: Transaction) -> None:
        self.running.remove(one)
        if one.truncates:
            self.rows.clear()
        for key, version in one.rows.items():
            if version is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = version

    # The connector

    def run(self, steps: int = 60, *, truncate: bool = False) -> list[str]:
        """Write, create the slot, read the ranges, stream. What is wrong with the log."""
        for _ in range(steps):
            self.write(truncate=truncate)
        self.slot = len(self.wal)
        waiting = {one.xid for one in self.running} if self.rules.wait_for_running else set()
        for _ in range(10_000):
            self.write(truncate=False)
            if not waiting & {one.xid for one in self.running}:
                break
        ranges = {(OID, number): self._read(number, truncate) for number in range(TABLE.ranges)}
        for _ in range(steps):
            self.write(truncate=truncate)
        while self.running:
            one = self.running[0]
            if one.lsn is None:
                one.lsn = len(self.wal)
                self.wal.append(one)
            self._leave(one)
        self._stream(SnapshotContent("s", PLAN, ranges, lambda _table, bounds: PythonOrder(bounds, [int])))
        return self._check()

    def _read(self, number: int, truncate: bool) -> RangeProgress:
        progress = RangeProgress("p")
        while not progress.done:
            for _ in range(self.choice.randrange(25)):
                self.write(truncate=truncate)
            while any(one.truncates for one in self.running):
                self.write(truncate=False)  # it holds the lock
            progress = progress.begin(self.snapshot(), len(self.wal))
            after = progress.last or TABLE.lower(number)
            upper = TABLE.upper(number)
            found = [
                (key, version)
                for key, version in sorted(self.rows.items())
                if (after is None or key > int(after[0])) and (upper is None or key <= int(upper[0]))
            ]
            dies = self.choice.random() < 0.5
            committed = found[: self.choice.randrange(len(found) + 1)] if dies else found
            for key, version in committed:
                self.log.append(("r", key, version))
                for _ in range(self.choice.randrange(4)):
                    self.write(truncate=False)
            last = (str(committed[-1][0]),) if committed else progress.last
            progress = RangeProgress("p", progress.segments, last, progress.rows + len(committed), done=not dies)
        return progress

    def _stream(self, contained: SnapshotContent) -> None:
        contained.relate(RELATION)
        active: SnapshotContent | None = contained
        for lsn, one in enumerate(self.wal):
            if lsn < self.slot:
                continue
            if active is not None and lsn >= active.until:
                active = None
            for message in one.changes:
                if message is TRUNCATE:
                    if active is None or active.truncate(OID, one.xid & _MASK, skipped=False) is not None:
                        self.log.append(("t", 0, 0))
                    continue
                change: Any = decode(message, {OID: _Readers()})
                if active is not None:
                    change = active.remainder(change, message, one.xid & _MASK)
                if change is not None:
                    self._deliver(change)

    def _deliver(self, change: Change) -> None:
        before, after = change.before, change.after
        if change.op == "d" or (before is not None and after is not None and before[0] != after[0]):
            assert before is not None
            self.log.append(("d", int(str(before[0])), 0))
        if after is not None:
            op = "c" if change.op == "c" or before is not None else "u"
            self.log.append((op, int(str(after[0])), int(str(after[1]))))

    def _check(self) -> list[str]:
        wrong: list[str] = []
        state: dict[int, int] = {}
        for op, key, version in self.log:
            known = state.get(key)
            if op == "t":
                state.clear()
            elif op == "d":
                if state.pop(key, None) is None:
                    wrong.append(f"{key} deleted, and was not there")
            else:
                if op in "rc" and known is not None:
                    wrong.append(f"{key} comes twice")
                if op == "u" and (known is None or version != known + 1):
                    wrong.append(f"{key} goes from {known} to {version}")
                state[key] = version
        if state != self.rows:
            wrong.append("another final state")
        return wrong
