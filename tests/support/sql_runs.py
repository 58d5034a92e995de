"""Runs SqlSource in this process, on SQLite and on other databases."""

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from ringfence.connectors.api import OffsetRecord, RecordBatch, SourceRecord, Struct
from ringfence.connectors.builtin.sql.task import SqlSourceTask
from tests.connectors.fakes import FakeContext, FakeOffsets


class Sqlite:
    """A database in a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.connection = sqlite3.connect(path, isolation_level=None)

    def run(self, statement: str, *values: object) -> None:
        self.connection.execute(statement, values)

    def config(self, mode: str, **more: str) -> dict[str, str]:
        return {
            "connection.url": f"jdbc:sqlite:{self.path}",
            "mode": mode,
            "topic.prefix": "db.",
            "tables": '[[null, "t"]]',
            "timestamp.delay.interval.ms": "0",
            "poll.interval.ms": "10",
            **{key.replace("_", "."): value for key, value in more.items()},
        }


class Seen:
    """Records and offsets as they would be committed."""

    def __init__(self, offsets: Mapping[str, Mapping[str, object]] | None = None) -> None:
        self.rows: list[dict[str, object]] = []
        self.batches: list[int] = []
        self.offsets = dict(offsets or {})

    def run(self, config: Mapping[str, str], polls: int = 3) -> "Seen":
        task = SqlSourceTask()
        task.context = FakeContext(FakeOffsets([(orjson.loads(key), each) for key, each in self.offsets.items()]))
        task.start(config)
        for _ in range(polls):
            for table in task._readings:
                table.due = 0.0
            self.take(task.poll())
        task.stop()
        return self

    def take(self, polled: Sequence[SourceRecord] | RecordBatch | None) -> None:
        assert not isinstance(polled, RecordBatch)
        self.batches.append(len(polled or ()))
        for record in polled or ():
            if not isinstance(record, OffsetRecord):
                assert isinstance(record.value, Struct)
                self.rows.append(dict(zip(record.value.schema.names, record.value.values, strict=True)))
            assert record.source_offset is not None
            self.offsets[orjson.dumps(record.source_partition, option=orjson.OPT_SORT_KEYS).decode()] = (
                record.source_offset
            )

    def column(self, name: str) -> list[object]:
        return [row[name] for row in self.rows]


def poll(config: dict[str, str]) -> Sequence[Any]:
    task = SqlSourceTask()
    task.context = FakeContext()
    task.start(config)
    try:
        return list(task.poll() or ())
    finally:
        task.stop()
