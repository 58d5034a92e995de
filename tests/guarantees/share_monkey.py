"""What may happen to a share group's tasks: SIGKILL, SIGSTOP, a second attempt beside a living one, late commits."""

import os
import random
import signal
import subprocess
import threading
import time
from collections import Counter

from tests.guarantees.shares import Queue

KINDS = ("kill", "stop", "rival")
STALLED = 0.3
"""The share of commits that stand still between check and commit."""


class ShareMonkey:
    """Troubles the tasks of a queue; every record of its input must be in the output once all the same."""

    def __init__(self, queue: Queue, seed: int, mode: str = "exact") -> None:
        self._queue = queue
        self._rng = random.Random(seed)
        self._mode = mode
        self._newest: dict[int, subprocess.Popen[str]] = {}
        self._timers: list[threading.Timer] = []
        self.done: Counter[str] = Counter()

    def start(self, tasks: int) -> None:
        """Every task of the generation that was configured last."""
        self._newest = {task: self._start(task) for task in range(tasks)}

    def _start(self, task: int) -> "subprocess.Popen[str]":
        return self._queue.start(task, self._mode, STALLED)

    def act(self) -> None:
        """One trouble, or none; a task that is gone is placed again, as a leader would."""
        for number, process in self._newest.items():
            if process.poll() is not None:
                self._newest[number] = self._start(number)
        if (task := self._choose()) is not None:
            self._trouble(task, self._rng.choice([*KINDS, "none"]))

    def trouble_one_that_has_begun(self, kind: str) -> bool:
        """Whether there was one."""
        if not (begun := self._begun()):
            return False
        self._trouble(self._rng.choice(begun), kind)
        return True

    def _trouble(self, task: int, kind: str) -> None:
        process = self._newest[task]
        self.done[kind] += 1
        if kind == "kill":
            process.kill()
            process.wait(10)
            self._newest[task] = self._start(task)
        elif kind == "stop":
            os.kill(process.pid, signal.SIGSTOP)
            timer = threading.Timer(self._rng.uniform(0.5, 3.0), _go_on, (process,))
            timer.start()
            self._timers.append(timer)
        elif kind == "rival":
            self._newest[task] = self._start(task)

    def _choose(self) -> int | None:
        """Mostly a task that has begun to process records: one that is ended before that has met no danger.

        On a busy machine none would ever get there otherwise.
        """
        some = self._begun() if self._rng.random() < 0.9 else list(self._newest)
        return self._rng.choice(some) if some else None

    def _begun(self) -> list[int]:
        return [task for task, process in self._newest.items() if self._queue.has_begun(process)]

    def run(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            time.sleep(self._rng.uniform(0.2, 0.8))
            self.act()

    def calm(self) -> None:
        """The trouble is over: everything runs again, and what is gone is placed once more."""
        for timer in self._timers:
            timer.join(5)
        self._mode_calm()

    def _mode_calm(self) -> None:
        self._queue.end(politely=False)
        for task in self._newest:
            self._newest[task] = self._queue.start(task, self._mode)


def _go_on(process: "subprocess.Popen[str]") -> None:
    if process.poll() is None:
        os.kill(process.pid, signal.SIGCONT)
