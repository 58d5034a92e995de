"""Kafka's own FileStreamSource under the kernel, and a file that grows while it is read."""

from collections import Counter
from functools import partial
from pathlib import Path

from tests.guarantees.stage import Stage
from tests.support.attempts import JavaAttempt
from tests.support.java_plugins import (
    FILE_STREAM,
    FILE_STREAM_CLASS,
    FILE_STREAM_TASK,
    plugin_path,
    runtime_of,
    settings_of,
)
from tests.support.waiting import eventually

TEXT = "org.apache.kafka.connect.storage.StringConverter"


class LinesJob:
    """One connector. Its lines are the numbers from 0 on; the stage's readers see them as numbers, too."""

    def __init__(self, stage: Stage, folder: Path, **more: str) -> None:
        self._stage = stage
        self._worker = {**settings_of(runtime_of(plugin_path(folder, FILE_STREAM))), "file.roots": str(folder)}
        self._source = folder / f"{stage.data}.lines"
        self._source.touch()
        self._attempts: list[JavaAttempt] = []
        self._config = {
            "name": str(stage.connector),
            "connector.class": FILE_STREAM_CLASS,
            "tasks.max": "1",
            "file": str(self._source),
            "topic": stage.data,
            "batch.size": "100",
            "key.converter": TEXT,
            "value.converter": TEXT,
            "transaction.boundary": "poll",
            "exactly.once.support": "required",
            **{name.replace("_", "."): value for name, value in more.items()},
        }
        self.written = 0
        stage.configure(self._config)
        stage.count()

    @property
    def visible(self) -> int:
        return len(self._stage.visible())

    def start(self) -> JavaAttempt:
        number = len(self._attempts) + 1
        self._attempts.append(JavaAttempt(self._stage, number, self._config, FILE_STREAM_TASK, self._worker))
        return self._attempts[-1]

    def write(self, lines: int) -> None:
        with self._source.open("a") as file:
            file.writelines(f"{number}\n" for number in range(self.written, self.written + lines))
        self.written += lines

    def wait_for(self, lines: int) -> None:
        eventually(partial(self._has, lines), 60, lambda: f"{self.visible} lines", pause=0.02)

    def complete(self) -> None:
        """Wait for the last line."""
        eventually(self._has_all, 60, lambda: f"{self.visible} of {self.written}", pause=2.0)

    def check(self) -> None:
        """Raise AssertionError if a line is missing, or there twice."""
        visible = self._stage.visible()
        missing = sorted(set(range(self.written)) - set(visible))
        twice = sorted(number for number, times in Counter(visible).items() if times > 1)
        assert (missing, twice) == ([], []), f"{len(missing)} lines are missing, {len(twice)} are there twice"
        assert visible == list(range(self.written)), "the lines are in another order"

    def close(self) -> None:
        for each in self._attempts:
            each.close()

    def _has(self, lines: int) -> bool:
        return self.visible >= lines

    def _has_all(self) -> bool:
        """If a batch is full at the end of the file, Kafka's task hands over the rest only behind a new line."""
        if self._has(self.written):
            return True
        self.write(1)
        return False
