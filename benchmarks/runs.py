"""Runs cases on one broker, one after another: topic, connector, observation, and cleanup."""

import sys
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from benchmarks import lines
from benchmarks import stand as stands
from benchmarks.cases import BARE, CONNECT, Case
from benchmarks.numbers import Numbers, numbers
from benchmarks.rest import Rest
from benchmarks.sides import Side
from benchmarks.watch import Observation, observe
from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics, delete_topics
from ringfence.local.guarded_process import GuardedProcess

# Enough to compile the hot code in Java, and to run a Python task once.
WARM_LINES = 1_000_000


@dataclass(slots=True)
class Runs:
    """A broker, the workers that `kinds` need, and the input. Use it with `with`."""

    root: Path
    kinds: tuple[str, ...]
    count: int
    nice: int = 0
    _stack: ExitStack = field(default_factory=ExitStack)
    _sides: dict[str, Side] = field(default_factory=dict)
    _stand: stands.Stand = field(init=False)
    _number: int = 0

    def __enter__(self) -> "Runs":
        with ExitStack() as stack:
            self.root.mkdir(parents=True, exist_ok=True)
            ours = [kind for kind in self.kinds if kind != CONNECT and kind not in BARE]
            who = [stands.CONNECT] * (CONNECT in self.kinds) + [stands.OURS] * bool(ours)
            self._stand = stack.enter_context(stands.Stand(self.root, nice=self.nice, who=who))
            self._sides = {
                kind: self._stand.sides[stands.CONNECT if kind == CONNECT else stands.OURS]
                for kind in self.kinds
                if kind not in BARE
            }
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stack.close()

    @property
    def _warm(self) -> int:
        return min(WARM_LINES, self.count)

    def _file(self, count: int) -> Path:
        """Return the input of `count` lines, written on first use."""
        path = self.root / f"{count}.txt"
        if not path.exists():
            lines.write(path, count)
        return path

    def warm(self, case: Case) -> None:
        """Run a case once, with fewer lines, unmeasured."""
        self._observe(case, self._warm)

    def run(self, case: Case) -> Numbers:
        """Run and measure a case."""
        count = case.lines(self.count)
        return numbers(self._observe(case, count), count, interval=case.boundary == "interval")

    def _observe(self, case: Case, count: int) -> Observation:
        self._number += 1
        topic = f"bench-{self._number}-{case.kind}-{case.boundary}"
        connection = self._stand.connection
        create_topics(connection, [TopicSpec(topic)], Deadline.after(30))
        try:
            if case.kind in BARE:
                return self._bare(case, topic, count)
            return self._connector(case, topic, count)
        finally:
            delete_topics(connection, [topic], Deadline.after(30))

    def _connector(self, case: Case, topic: str, count: int) -> Observation:
        side = self._sides[case.kind]
        with Rest(side.url) as rest:
            rest.create(topic, case.config(self._file(count), topic))
            try:
                return observe(self._stand.bootstrap, topic, count, side.pid, lambda: rest.trouble(topic))
            finally:
                rest.delete(topic)

    def _bare(self, case: Case, topic: str, count: int) -> Observation:
        command = [sys.executable, "-m", BARE[case.kind], self._stand.bootstrap, topic, str(self._file(count))]
        log = self.root / f"{case.kind}.log"
        process = GuardedProcess.start(case.kind, [*command, case.boundary], log=log, cwd=Path(__file__).parent.parent)
        self._stand.prefer(process.pid)
        try:
            return observe(self._stand.bootstrap, topic, count, process.pid, lambda: _ended_badly(process, log))
        finally:
            process.stop(grace=5)


def _ended_badly(process: GuardedProcess, log: Path) -> str | None:
    code = process.poll()
    return f"code {code}, see {log}" if code else None
