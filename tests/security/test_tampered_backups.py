"""A file of `ringfence backup` that somebody has changed is refused before anything is written."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from ringfence.fencing.errors import Invalid
from ringfence.recovery.backup_format import ConnectorCopy, Copy, OffsetCopy, loads

Change = Callable[[dict[str, Any]], object]

COPY = Copy(
    "group",
    1_700_000_000_000,
    "topics a and b",
    {"c": ConnectorCopy({"name": "c", "password": "S3cr3t"}, tasks=2, topics=(("orders-*",),), saved_by="ann")},
    [OffsetCopy("c", {"p": 1}, {"o": [1.5, None, "x"]}), OffsetCopy("deleted", {"p": 1}, {"o": 1})],
    "",
    {"ids": "{}"},
)


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"x": value}
    return value


def set_in(*path: str | int, to: object) -> Change:
    def change(copy: Any) -> None:
        for step in path[:-1]:
            copy = copy[step]
        copy[path[-1]] = to

    return change


def test_what_was_written_is_read() -> None:
    assert loads(COPY.dumps()) == COPY


@pytest.mark.parametrize(
    "change",
    [
        set_in("format", to="x"),
        set_in("version", to=2),
        set_in("version", to=True),
        set_in("version", to=1.0),
        set_in("version", to="1"),
        set_in("made_ms", to=10**20),
        set_in("made_ms", to=-1),
        set_in("made_ms", to="1"),
        set_in("source", to="the database\x1b[2J"),
        set_in("group_id", to="group\nx"),
        set_in("group_id", to=""),
        set_in("connectors", to=[]),
        set_in("connectors", "", to={}),
        set_in("connectors", "c\x1b[1m", to={}),
        set_in("connectors", "c", "config", "name", to="d"),
        set_in("connectors", "c", "config", "x", to=1),
        set_in("connectors", "c", "config", "x", to="\ud800"),
        set_in("connectors", "c", "tasks", to=10**9),
        set_in("connectors", "c", "tasks", to=-1),
        set_in("connectors", "c", "tasks", to=1.5),
        set_in("connectors", "c", "state", to="GONE"),
        set_in("connectors", "c", "state", to=[]),
        set_in("connectors", "c", "topics", to="*"),
        set_in("connectors", "c", "topics", to=["*"]),
        set_in("connectors", "c", "topics", to=[[1]]),
        set_in("connectors", "c", "saved_by", to=None),
        set_in("offsets", 1, to={"connector": "c", "partition": {"p": 1}, "offset": {"o": 2}}),
        set_in("offsets", 0, "partition", to=[]),
        set_in("offsets", 0, "offset", to=nested(400)),
        set_in("offsets", 0, "offset", "o", to=float("nan")),
        set_in("offsets", 0, "connector", to=""),
    ],
)
def test_a_changed_file_is_refused(change: Change) -> None:
    copy = json.loads(COPY.dumps())
    change(copy)
    with pytest.raises(Invalid, match="cannot be read") as caught:
        loads(json.dumps(copy))
    assert str(caught.value).isprintable()
    assert "S3cr3t" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "1",
        "[" * 100_000,
        COPY.dumps()[:-10],
        COPY.dumps()[: len(COPY.dumps()) // 2],
        COPY.dumps().replace('"saved_by": "ann"', '"saved_by": "ann", "saved_by": "root"'),
        COPY.dumps().replace('"version": 1,', ""),
    ],
)
def test_a_file_that_is_no_backup_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="cannot be read"):
        loads(text)
