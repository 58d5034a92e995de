"""Several tasks of one PostgresSource that read a snapshot: each attempt a process, to be killed by itself."""

import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from ringfence.connectors.builtin.postgres import settings as names
from ringfence.connectors.builtin.postgres.connector import PostgresSourceConnector
from ringfence.connectors.builtin.postgres.offsets import share_config
from ringfence.connectors.builtin.postgres.snapshot_run import SnapshotState, find_state
from ringfence.fencing.clock import Deadline
from ringfence.fencing.ids import ConnectorName, TaskId
from ringfence.fencing.offsets.source_offsets import read_offsets
from ringfence.fencing.task.task_spec import TaskSpec
from tests.postgres.stand import Stand
from tests.support.postgres import Postgres
from tests.support.waiting import eventually

_NAME = ConnectorName("numbers")


class SnapshotStand(Stand):
    """`hooks`: of `tests.postgres.process`, for each attempt that begins from now on."""

    def __init__(self, postgres: Postgres, bootstrap: str, name: str, root: Any, tasks: int, **settings: str) -> None:
        super().__init__(postgres, bootstrap, name, root, snapshot_mode="initial", **settings)
        self.tasks = tasks
        self._attempts = 0
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        self._logs: dict[int, Any] = {}

    def task_config(self, number: int) -> Mapping[str, str]:
        return {**self.config, **share_config(number, self.tasks)}

    def configure(self) -> None:
        """A generation with as many tasks as there are to be."""
        self.stage.write_generation(self.config, [self.task_config(number) for number in range(self.tasks)])
        self.stage.count()

    def begin(self, number: int) -> None:
        """Place the next attempt of a task."""
        self._attempts += 1
        stage = self.stage
        task = TaskId(_NAME, number)
        placement = stage.place_task(task, self._attempts)
        kind = PostgresSourceConnector.task_class()
        spec = TaskSpec(
            stage.connection,
            stage.group,
            stage.topics,
            task,
            placement,
            f"{kind.__module__}.{kind.__name__}",
            self.task_config(number),
            self.config,
            {
                "offset.flush.interval.ms": "60000",
                "transaction.timeout.ms": "60000",
                "egress.allow": "public,private,loopback",
            },
        )
        self._logs[number] = self.root / f"task-{number}-{self._attempts}.log"
        log = self._logs[number].open("wb")
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.postgres.process", *self.hooks], stdin=subprocess.PIPE, stdout=log, stderr=log
        )
        assert process.stdin is not None
        process.stdin.write(spec.dumps().encode())
        process.stdin.close()
        self._running[number] = process

    def strike(self, number: int) -> None:
        """SIGKILL."""
        process = self._running.pop(number, None)
        if process is not None:
            process.kill()
            process.wait(30)

    def finish(self, number: int) -> None:
        """SIGTERM."""
        process = self._running.pop(number)
        process.terminate()
        process.wait(60)

    def finish_all(self, lsn: int) -> None:
        """SIGTERM for every task, once everything up to this position is committed in Kafka."""
        eventually(lambda: int((self.offset() or {})["lsn_commit"]) >= lsn, 90, self.logs, pause=0.2)
        for number in range(self.tasks):
            self.finish(number)

    def logs(self) -> str:
        return "\n".join(f"{path.name}: {path.read_text()[-2000:]}" for path in self._logs.values())

    def state(self) -> SnapshotState:
        """What is committed."""
        connection, topic = self.stage.connection, self.stage.topics.offsets
        found = read_offsets(connection, topic, _NAME, Deadline.after(60))
        return find_state(self.prefix, names.INITIAL, found.offset)

    def close(self) -> None:
        for number in list(self._running):
            self.strike(number)
        super().close()
