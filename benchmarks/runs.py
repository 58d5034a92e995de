"""Runs cases on one broker, one after another: topic, connector, observation, and everything away again."""

import os
import sys
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from benchmarks import lines
from benchmarks.cases import CONNECT, PLAIN, Case
from benchmarks.connect import ConnectWorker
from benchmarks.numbers import Numbers, numbers
from benchmarks.ours import RingfenceWorker
from benchmarks.processes import prefer
from benchmarks.rest import Rest
from benchmarks.sides import Side
from benchmarks.watch import Observation, observe
from fencing.clock import Deadline
from fencing.kafka.admin import TopicSpec, create_topics, delete_topics
from fencing.kafka.settings import Connection
from ringfence.local.kafka import EmbeddedKafka
from ringfence.local.process import Leashed, free_port

# Enough for Java's second compiler, and for a Python task to have run once.
WARM_LINES = 1_000_000


@dataclass(slots=True)
class Runs:
    """A broker, the workers that `kinds` need, and the input. To be used with `with`."""

    root: Path
    kinds: tuple[str, ...]
    count: int
    nice: int = 0
    _stack: ExitStack = field(default_factory=ExitStack)
    _sides: dict[str, Side] = field(default_factory=dict)
    _bootstrap: str = ""
    _number: int = 0

    def __enter__(self) -> "Runs":
        with ExitStack() as stack:
            self.root.mkdir(parents=True, exist_ok=True)
            lines.write(self._file(self.count), self.count)
            lines.write(self._file(self._warm), self._warm)
            kafka = EmbeddedKafka(self.root / "kafka", free_port(), self.root / "kafka.log")
            stack.callback(kafka.kill)
            kafka.start()
            self._bootstrap = kafka.bootstrap
            self._prefer(os.getpid(), kafka.process.pid)
            if CONNECT in self.kinds:
                self._start(stack, CONNECT, ConnectWorker(self.root / "connect", self._bootstrap))
            if ours := [kind for kind in self.kinds if kind not in (CONNECT, PLAIN)]:
                worker = RingfenceWorker(self.root / "ringfence", self._bootstrap)
                self._start(stack, ours[0], worker)
                self._sides.update(dict.fromkeys(ours, worker))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stack.close()

    def _start(self, stack: ExitStack, kind: str, side: Side) -> None:
        stack.callback(side.stop)
        side.start()
        self._sides[kind] = side
        self._prefer(side.pid)

    def _prefer(self, *pids: int) -> None:
        for pid in pids if self.nice else ():
            prefer(pid, self.nice)

    @property
    def _warm(self) -> int:
        return min(WARM_LINES, self.count)

    def _file(self, count: int) -> Path:
        return self.root / f"{count}.txt"

    def warm(self, case: Case) -> None:
        """Run it once, on fewer lines, unmeasured."""
        self._observe(case, self._warm)

    def run(self, case: Case) -> Numbers:
        """Run and measure it."""
        return numbers(self._observe(case, self.count), self.count, interval=case.boundary == "interval")

    def _observe(self, case: Case, count: int) -> Observation:
        self._number += 1
        topic = f"bench-{self._number}-{case.kind}-{case.boundary}"
        connection = Connection(self._bootstrap, {"log_level": "0"}, client_id="benchmark")
        create_topics(connection, [TopicSpec(topic)], Deadline.after(30))
        try:
            if case.kind == PLAIN:
                return self._plain(case, topic, count)
            return self._connector(case, topic, count)
        finally:
            delete_topics(connection, [topic], Deadline.after(30))

    def _connector(self, case: Case, topic: str, count: int) -> Observation:
        side = self._sides[case.kind]
        with Rest(side.url) as rest:
            rest.create(topic, case.config(self._file(count), topic))
            try:
                return observe(self._bootstrap, topic, count, side.pid, lambda: rest.trouble(topic))
            finally:
                rest.delete(topic)

    def _plain(self, case: Case, topic: str, count: int) -> Observation:
        command = [sys.executable, "-m", "benchmarks.plain", self._bootstrap, topic, str(self._file(count))]
        log = self.root / "plain.log"
        process = Leashed.start("plain", [*command, case.boundary], log=log, cwd=Path(__file__).parent.parent)
        self._prefer(process.pid)
        try:
            return observe(self._bootstrap, topic, count, process.pid, lambda: _ended_badly(process, log))
        finally:
            process.stop(grace=5)


def _ended_badly(process: Leashed, log: Path) -> str | None:
    code = process.poll()
    return f"code {code}, see {log}" if code else None
