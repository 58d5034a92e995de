"""A small connector that is exactly once, and what becomes of it with one defect each."""

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from ringfence.connectors.api import (
    ConfigDef,
    ConfigType,
    DataException,
    ExactlyOnceSupport,
    SourceConnector,
    SourceRecord,
    SourceTask,
    UnreadableRecord,
)
from ringfence.testing import Scenario
from ringfence.testing.oddities import Kind, Oddity

SETTINGS: Final = (
    ConfigDef()
    .define("folder", ConfigType.STRING, documentation="Folder to read.")
    .define("topic", ConfigType.STRING, documentation="Topic to write to.")
)
_MOST = 20


class LinesTask(SourceTask):
    """The lines of the files whose numbers, modulo the number of tasks, are this task's."""

    def start(self, config: Mapping[str, str]) -> None:
        self.folder, self.topic = Path(config["folder"]), config["topic"]
        self.number, self.of = int(config.get("number", "0")), int(config.get("of", "1"))
        self.done: dict[str, int] = {}

    def poll(self) -> Sequence[SourceRecord] | None:
        for path in sorted(self.folder.glob("*.txt")):
            if int(path.stem) % self.of == self.number:
                found = self.read(path)
                if found:
                    return found
        self.context.wait(0.2)
        return None

    def read(self, path: Path) -> list[SourceRecord]:
        partition = self.partition(path)
        if path.name not in self.done:
            self.done[path.name] = self.committed(path, partition)
        done = self.done[path.name]
        lines = path.read_text().splitlines()[done : done + _MOST]
        self.done[path.name] = done + len(lines)
        return [
            SourceRecord(partition, self.offset(done + number), self.topic, line)
            for number, line in enumerate(lines, 1)
        ]

    def partition(self, path: Path) -> dict[str, object]:
        return {"file": path.name}

    def offset(self, lines: int) -> dict[str, object]:
        return {"lines": lines}

    def committed(self, path: Path, partition: Mapping[str, object]) -> int:
        found = self.context.offset_reader.offset(partition)
        return int(str(found["lines"])) if found else 0


class LinesConnector(SourceConnector):
    """Lines of files."""

    task: type[SourceTask] = LinesTask
    support: ExactlyOnceSupport | None = ExactlyOnceSupport.SUPPORTED

    @classmethod
    def config_def(cls) -> ConfigDef:
        return SETTINGS

    @classmethod
    def task_class(cls) -> type[SourceTask]:
        return cls.task

    def start(self, config: Mapping[str, str]) -> None:
        self.config = dict(config)

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [{**self.config, "number": str(number), "of": str(max_tasks)} for number in range(max_tasks)]

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport | None:
        return self.support


class LinesScenario(Scenario):
    connector = LinesConnector
    tasks = 2
    records = 1200
    added = 0

    def config(self) -> Mapping[str, str]:
        return {"folder": str(self.folder), "topic": self.topic, "value.converter": "StringConverter"}

    def add(self, count: int) -> Sequence[str]:
        """Four files."""
        found: list[str] = []
        for part in range(4):
            lines = [f"line {number}" for number in range(self.added, self.added + count // 4 + 1)]
            self.added += len(lines)
            new = self.folder / f"{len(list(self.folder.glob('*.txt')))}.new"
            new.write_text("".join(f"{line}\n" for line in lines))
            new.rename(new.with_suffix(".txt"))
            found += lines
            assert part < 4
        return found

    def add_value(self, oddity: Oddity) -> bool:
        if oddity.kind is not Kind.TEXT or len(oddity.literal.splitlines()) != 1:
            return False
        with (self.folder / "0.txt").open("a", encoding="utf-8", newline="") as file:
            file.write(f"{oddity.literal}\n")
        return True


def scenario(connector: type[SourceConnector]) -> type[Scenario]:
    """The same source for a connector with a defect."""
    return type("DefectScenario", (LinesScenario,), {"connector": connector})


class UndocumentedConnector(LinesConnector):
    @classmethod
    def config_def(cls) -> ConfigDef:
        return ConfigDef().define("folder", ConfigType.STRING).define("topic", ConfigType.STRING)


class SilentConnector(LinesConnector):
    support = None


class UnstableConnector(LinesConnector):
    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [{**self.config, "time": str(time.monotonic_ns())}]


class GreedyConnector(LinesConnector):
    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return super().task_configs(max_tasks + 1)


class BehindTask(LinesTask):
    def offset(self, lines: int) -> dict[str, object]:
        return {"lines": lines - 1}


class BehindConnector(LinesConnector):
    """Its offsets name the record itself, and `start` does not know that."""

    task = BehindTask


class TupleTask(LinesTask):
    def offset(self, lines: int) -> dict[str, object]:
        return {"lines": lines, "at": (lines, 0)}


class TupleConnector(LinesConnector):
    task = TupleTask


class ForgetfulTask(LinesTask):
    def committed(self, path: Path, partition: Mapping[str, object]) -> int:
        return 0


class ForgetfulConnector(LinesConnector):
    """It never asks for committed offsets."""

    task = ForgetfulTask


class NotebookTask(LinesTask):
    """Keeps its own file of positions, after each poll: ahead of what is committed."""

    def committed(self, path: Path, partition: Mapping[str, object]) -> int:
        book = self.folder / f"{path.stem}.json"
        return int(json.loads(book.read_text())["lines"]) if book.exists() else 0

    def read(self, path: Path) -> list[SourceRecord]:
        found = super().read(path)
        new = self.folder / f"{path.stem}.json.new"
        new.write_text(json.dumps({"lines": self.done[path.name]}))
        new.replace(self.folder / f"{path.stem}.json")
        return found


class NotebookConnector(LinesConnector):
    task = NotebookTask


class NumberedTask(LinesTask):
    def partition(self, path: Path) -> dict[str, object]:
        return {"file": path.name, "task": f"{self.number} of {self.of}"}


class NumberedConnector(LinesConnector):
    """Its source partitions depend on which task reads, and of how many: whichever of two comes first reads again."""

    task = NumberedTask


class DeafTask(LinesTask):
    def poll(self) -> Sequence[SourceRecord] | None:
        found = super().poll()
        while not found:
            time.sleep(0.1)
            found = super().poll()
        return found


class DeafConnector(LinesConnector):
    """Its `poll` does not return while there is nothing to read."""

    task = DeafTask


class StrippingTask(LinesTask):
    def read(self, path: Path) -> list[SourceRecord]:
        found = super().read(path)
        for record in found:
            record.value = str(record.value).strip()
        return found


class StrippingConnector(LinesConnector):
    """It changes values."""

    task = StrippingTask


class FragileTask(LinesTask):
    def read(self, path: Path) -> list[SourceRecord]:
        found = super().read(path)
        for record in found:
            str(record.value).encode("latin-1")
        return found


class FragileConnector(LinesConnector):
    """It ends at a value that it did not expect."""

    task = FragileTask


class RefusingTask(LinesTask):
    def read(self, path: Path) -> list[SourceRecord]:
        return [
            record
            if str(record.value).isascii()
            else UnreadableRecord(
                record.source_partition, record.source_offset, record.topic, DataException("it is not ASCII")
            )
            for record in super().read(path)
        ]


class RefusingConnector(LinesConnector):
    """It refuses what a record could hold."""

    task = RefusingTask
