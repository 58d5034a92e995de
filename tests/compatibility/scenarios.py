"""Sources for our own connectors under the compatibility suite that we offer others."""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path

from ringfence.connectors.builtin.file_stream.connector import FileStreamSourceConnector
from ringfence.connectors.builtin.files.connector import FilesSourceConnector
from ringfence.connectors.builtin.sql.connector import SqlSourceConnector
from ringfence.fencing.kafka.consumer import LogRecord
from ringfence.testing import Scenario

TEXT = {"value.converter": "StringConverter"}


class FileStreamScenario(Scenario):
    """One file that grows."""

    connector = FileStreamSourceConnector
    records = 20_000
    added = 0

    def config(self) -> Mapping[str, str]:
        return {"file": str(self.folder / "lines.txt"), "topic": self.topic, "batch.size": "200", **TEXT}

    def add(self, count: int) -> Sequence[str]:
        lines = [f"line {number}" for number in range(self.added, self.added + count)]
        self.added += count
        with (self.folder / "lines.txt").open("a") as file:
            file.write("".join(f"{line}\n" for line in lines))
        return lines


class FilesScenario(Scenario):
    """Many files, on two tasks."""

    connector = FilesSourceConnector
    tasks = 2
    records = 20_000
    added = 0

    def config(self) -> Mapping[str, str]:
        reading = {"format": "text", "settle.ms": "0", "batch.size": "100"}
        return {"url": f"file://{self.folder}", "topic": self.topic, **reading, **TEXT}

    def add(self, count: int) -> Sequence[str]:
        lines = [f"line {number}" for number in range(self.added, self.added + count)]
        self.added += count
        for part in range(4):
            (self.folder / f"{self.added:09}-{part}.txt").write_text("".join(f"{line}\n" for line in lines[part::4]))
        return lines


class SqlScenario(Scenario):
    """A table that grows."""

    connector = SqlSourceConnector
    records = 4000
    added = 0

    def __init__(self, folder: Path, topic: str) -> None:
        super().__init__(folder, topic)
        self.database = sqlite3.connect(folder / "shop.sqlite", isolation_level=None)
        self.database.execute("PRAGMA journal_mode=WAL")
        self.database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, name TEXT NOT NULL)")

    def config(self) -> Mapping[str, str]:
        reading = {"mode": "incrementing", "incrementing.column.name": "id", "poll.interval.ms": "100"}
        batches = {"batch.max.rows": "100", "topic.prefix": self.topic}
        return {"connection.url": f"sqlite:///{self.folder}/shop.sqlite", **reading, **batches}

    def add(self, count: int) -> Sequence[str]:
        names = [f"order {number}" for number in range(self.added, self.added + count)]
        self.added += count
        self.database.execute("BEGIN")
        self.database.executemany("INSERT INTO orders (name) VALUES (?)", [(name,) for name in names])
        self.database.execute("COMMIT")
        return names

    def identify(self, record: LogRecord) -> str:
        return str(json.loads(record.value or b"{}")["name"])

    def close(self) -> None:
        self.database.close()


SCENARIOS: tuple[type[Scenario], ...] = (FileStreamScenario, FilesScenario, SqlScenario)
