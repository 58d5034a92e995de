"""Attempts of connectors under the real kernel, in processes that may be killed."""

from collections.abc import Mapping
from typing import Any, Self

import psutil

from ringfence.connectors.api import SourceTask
from ringfence.connectors.class_names import class_name
from ringfence.fencing.task.task_spec import TaskSpec
from ringfence.testing.connector_run import AttemptProcess
from tests.guarantees.stage import Stage
from tests.support.waiting import eventually

WITHOUT_TRANSACTIONS = {"exactly.once.source.support": "disabled"}
"""Settings of a worker for controls: records are written at least once, so a test that counts must find some twice."""


class Attempt(AttemptProcess):
    """A task in a Python process of its own."""

    def __init__(
        self, stage: Stage, number: int, config: Mapping[str, str], task_class: str, worker: Mapping[str, str]
    ) -> None:
        settings = {
            "offset.flush.interval.ms": "60000",
            "transaction.timeout.ms": "60000",
            "exactly.once.source.support": "enabled",
            **worker,
        }
        spec = TaskSpec(
            stage.connection,
            stage.group,
            stage.topics,
            stage.task,
            stage.place(number),
            task_class,
            dict(config),
            {**config, "task.class": task_class},
            settings,
        )
        super().__init__(spec)


class Attempts:
    """The attempts of a connector's one task, one after another; all end with the block."""

    def __init__(
        self, stage: Stage, config: Mapping[str, str], task: type[SourceTask], worker: Mapping[str, str] | None = None
    ) -> None:
        """Write a generation with this configuration. worker: settings."""
        self._stage, self._config, self._task, self._worker = stage, config, task, worker or {}
        self._attempts: list[Attempt] = []
        stage.configure(config)
        stage.count()

    def start(self) -> Attempt:
        number = len(self._attempts) + 1
        self._attempts.append(Attempt(self._stage, number, self._config, class_name(self._task), self._worker))
        return self.newest

    @property
    def newest(self) -> Attempt:
        return self._attempts[-1]

    def await_visible(self, count: int, *, distinct: bool = False, pause: float = 0.05) -> None:
        """Wait until so many records are visible; with `distinct`, so many different ones."""

        def are_there() -> bool:
            visible = self._stage.visible()
            return len({*visible} if distinct else visible) >= count

        eventually(are_there, 60, lambda: f"{len(self._stage.visible())} of {count}. {self.newest.log}", pause=pause)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for each in self._attempts:
            each.close()


class JavaAttempt(Attempt):
    """A Python process and the JVM beside it."""

    def java(self) -> psutil.Process:
        """Waits until it is there."""
        found: list[psutil.Process] = []

        def there() -> bool:
            if self._process.poll() is not None:
                return False
            found[:] = [one for one in psutil.Process(self._process.pid).children() if one.name() == "java"]
            return bool(found)

        eventually(there, 60, lambda: f"no JVM. {self.log}", pause=0.05)
        return found[0]

    def kill_java(self) -> dict[str, Any]:
        """How the attempt ended."""
        self.java().kill()
        return self.outcome()

    def kill_python(self) -> None:
        """Returns when the JVM is gone, too."""
        java = self.java()
        self._process.kill()
        self._process.wait()
        psutil.wait_procs([java], 60)
        assert not java.is_running() or java.status() == psutil.STATUS_ZOMBIE, "the JVM outlives its task"
