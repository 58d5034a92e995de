"""The environment of a comparison: one broker, with the real Kafka Connect and Ringfence, all exactly once."""

import os
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from benchmarks.connect import ConnectWorker
from benchmarks.ours import RingfenceWorker
from benchmarks.processes import prefer
from benchmarks.sides import Side
from ringfence.fencing.kafka.connection import Connection
from ringfence.local.jars import Coordinate
from ringfence.local.kafka import EmbeddedKafka
from ringfence.local.ports import free_port

CONNECT, OURS = "Kafka Connect", "Ringfence"


class Stand:
    """Use it with `with`. sides: the workers by name, in the order in which they are measured."""

    def __init__(
        self,
        root: Path,
        plugins: tuple[Coordinate, ...] = (),
        nice: int = 0,
        slots: int | None = None,
        who: Collection[str] = (CONNECT, OURS),
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """plugins: of Kafka Connect. nice: of all participants. slots, settings: of Ringfence's worker, settings as
        environment variables. who: the sides to start.
        """
        self._root = root
        self._plugins = plugins
        self._nice = nice
        self._slots = slots
        self._who = who
        self._settings = settings or {}
        self._stack = ExitStack()
        self.sides: dict[str, Side] = {}
        self.bootstrap = ""

    def __enter__(self) -> "Stand":
        with ExitStack() as stack:
            self._root.mkdir(parents=True, exist_ok=True)
            kafka = EmbeddedKafka(self._root / "kafka", free_port(), self._root / "kafka.log")
            stack.callback(kafka.kill)
            kafka.start()
            self.bootstrap = kafka.bootstrap
            self.prefer(os.getpid(), kafka.process.pid)
            if CONNECT in self._who:
                self.sides[CONNECT] = ConnectWorker(self._root / "connect", self.bootstrap, self._plugins)
            if OURS in self._who:
                self.sides[OURS] = RingfenceWorker(
                    self._root / "ringfence", self.bootstrap, slots=self._slots, settings=self._settings
                )
            for side in self.sides.values():
                stack.callback(side.stop)
                side.start()
                self.prefer(side.pid)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stack.close()

    def add(self, name: str, side: Side) -> None:
        """Start another side, which stops with the others."""
        self._stack.callback(side.stop)
        self.sides[name] = side
        side.start()
        self.prefer(side.pid)

    def restart(self) -> None:
        """Stop the workers and start them again. The broker stays."""
        for side in self.sides.values():
            side.stop()
        for side in self.sides.values():
            side.start()
            self.prefer(side.pid)

    @property
    def connection(self) -> Connection:
        """The benchmark's own connection."""
        return Connection(self.bootstrap, {"log_level": "0"}, client_id="benchmark")

    def prefer(self, *pids: int) -> None:
        """Give these processes the same niceness as all others."""
        for pid in pids if self._nice else ():
            prefer(pid, self._nice)
