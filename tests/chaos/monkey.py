"""Carries the schedule out on a running platform, beside a connector, and keeps the books."""

import contextlib
import os
import signal
import time
from collections import Counter
from collections.abc import Iterator

from tests.chaos.frozen_workers import FrozenWorkers
from tests.chaos.schedule import TASKS, Act, Step
from tests.e2e import processes
from tests.e2e.flow import Flow
from tests.e2e.up import Up

_ANSWER_SECONDS = 120.0
"""A command may have to wait for a new leader, and for the broker before that."""


class Monkey:
    """One run. `done` counts what was carried out; `log` tells it in order, with seconds from the start."""

    def __init__(self, up: Up, flow: Flow) -> None:
        self._up = up
        self._flow = flow
        self._frozen = FrozenWorkers(up, self._say)
        self._turn = 0
        self._began = time.monotonic()
        self.done: Counter[Act] = Counter()
        self.checks = 0
        self.records = 0
        self.log: list[str] = []

    def run(self, schedule: Iterator[Step], seconds: float) -> None:
        """Until the time is over; nothing is frozen afterwards."""
        end = self._began + seconds
        try:
            for step in schedule:
                if time.monotonic() + step.pause >= end:
                    return
                self._rest(step.pause)
                self._say(f"{step.act}")
                self._carry_out(step)
                self.done[step.act] += 1
        finally:
            self._frozen.thaw_all()

    def _say(self, text: str) -> None:
        self.log.append(f"{time.monotonic() - self._began:7.1f} s  {text}")
        print(self.log[-1], flush=True)

    def _rest(self, seconds: float) -> None:
        """Peace, in which records are read."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._flow.reader.poll(0.1)

    def _victim(self, draw: float) -> str | None:
        """A worker that is not frozen."""
        awake = self._frozen.awake
        return awake[int(draw * len(awake))] if awake else None

    @property
    def _names(self) -> list[str]:
        return [f"worker-{number}" for number in range(1, self._up.workers + 1)]

    def _carry_out(self, step: Step) -> None:
        path = f"/connectors/{self._flow.name}"
        match step.act:
            case Act.TERMINATE | Act.KILL:
                self._signal(step)
            case Act.FREEZE:
                self._freeze(step)
            case Act.KILL_TASK:
                self._kill_task(step)
            case Act.BROKER:
                os.kill(self._up.pid("kafka"), signal.SIGTERM)
            case Act.RECONFIGURE:
                self._turn += 1
                self._flow.tasks = TASKS[self._turn % len(TASKS)]
                self._ask(200, "PUT", f"{path}/config", self._flow.config())
            case Act.STOP:
                self._ask(204, "PUT", f"{path}/stop")
                self._ask(202, "PUT", f"{path}/resume")
            case Act.RESET:
                self._ask(204, "PUT", f"{path}/stop")
                self._check()
                self._ask(200, "DELETE", f"{path}/offsets")
                self._flow.begin_anew()
                self._ask(202, "PUT", f"{path}/resume")
            case Act.PAUSE:
                self._ask(202, "PUT", f"{path}/pause")
                self._rest(min(step.seconds, 3.0))
                self._ask(202, "PUT", f"{path}/resume")
            case Act.RESTART:
                self._ask(202, "POST", f"{path}/restart?includeTasks=true")

    def _ask(self, status: int, method: str, path: str, body: object = None) -> None:
        self._up.rest.settled(status, method, path, body, timeout=_ANSWER_SECONDS)

    def _check(self) -> None:
        """After a stop was answered nothing can be written any more, whoever sleeps."""
        self._flow.check()
        self.checks += 1
        self.records += self._flow.reader.count

    def _signal(self, step: Step) -> None:
        victim = self._victim(step.draw)
        if victim is not None:
            self._say(f"  {victim}")
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._up.pid(victim), signal.SIGTERM if step.act is Act.TERMINATE else signal.SIGKILL)

    def _freeze(self, step: Step) -> None:
        victim = self._victim(step.draw)
        if victim is not None:
            self._frozen.freeze(victim, step.seconds)

    def _kill_task(self, step: Step) -> None:
        running = [pid for name in self._names for pid in processes.tasks(self._up.pid(name))]
        if running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(running[int(step.draw * len(running))], signal.SIGKILL)

    def verdict(self) -> str:
        """Every task RUNNING, 1..n each; AssertionError where not. What was done, and how many records it took."""
        self._flow.settle()
        self.checks += 1
        self.records += self._flow.reader.count
        blows = "\n".join(f"  {count:3}  {act}" for act, count in sorted(self.done.items()))
        return f"{blows}\n{self.records} records in {self.checks} checks: none missing, none twice, every task RUNNING"
