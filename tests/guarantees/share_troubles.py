"""What happens to a share group's connector beside its tasks: brokers, administrators, other numbers of tasks."""

import random
import subprocess
import time
from collections.abc import Sequence
from itertools import cycle
from typing import Final

from ringfence.local.jars import KAFKA_SERVER, KAFKA_VERSION, Coordinate, resolve
from ringfence.local.java import find_java
from ringfence.local.kafka import EmbeddedKafka
from tests.guarantees.share_monkey import ShareMonkey
from tests.guarantees.shares import Queue

_TOOLS: Final = Coordinate("org.apache.kafka", "kafka-tools", KAFKA_VERSION)
_COMMAND: Final = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
_MOVES: Final = (("--reset-offsets", "--to-earliest"), ("--reset-offsets", "--to-latest"), ("--delete",))
TASKS: Final = (5, 1, 2)
KINDS: Final = ("broker", "reconfigure", "reset", "reconfigure", "reset", "reconfigure", "broker", "reset")


class Troubles:
    """One of them every so often, and the monkey in between."""

    def __init__(self, queue: Queue, brokers: Sequence[EmbeddedKafka], seed: int, *, whole: bool = False) -> None:
        """whole: the time of a run is that of its tasks; on a busy machine a broker's start takes most of a minute."""
        self._whole = whole
        self._queue = queue
        self._brokers = brokers
        self._rng = random.Random(seed)
        self._tasks = cycle(TASKS)
        self._moves = cycle(_MOVES)
        jars = resolve("kafka-tools", (*KAFKA_SERVER, _TOOLS))
        self._java = [str(find_java()), "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", str(jars / "*")]

    def run(self, monkey: ShareMonkey, until: float) -> None:
        """Until the monotonic second `until`, and as much longer as brokers and administrators take in `whole` runs."""
        left = until - time.monotonic()
        for kind in cycle(KINDS):
            monkey.run(max(5.0, min(20.0, left / (len(KINDS) + 4))))
            if time.monotonic() >= until:
                return
            began = time.monotonic()
            if kind == "broker":
                self.kill_a_broker()
            elif kind == "reset":
                self.reset(monkey)
            else:
                self.reconfigure(monkey)
            monkey.done[kind] += 1
            until += time.monotonic() - began if self._whole else 0.0

    def kill_a_broker(self) -> None:
        """SIGKILL, and after a moment it is back."""
        broker = self._rng.choice(self._brokers)
        broker.kill()
        time.sleep(self._rng.uniform(0.2, 2.0))
        broker.start()

    def reconfigure(self, monkey: ShareMonkey) -> None:
        """Another number of tasks; those of the old generation end by themselves."""
        tasks = next(self._tasks)
        self._queue.configure(tasks, self._queue.config)
        monkey.start(tasks)

    def reset(self, monkey: ShareMonkey) -> None:
        """Somebody moves the group's offsets with Kafka's own tool, or deletes it, while nobody is in it.

        All that our connector has done comes again, or all that is left is skipped.
        """
        move = next(self._moves)
        self._queue.end()
        given = ["--bootstrap-server", self._queue.input.bootstrap, "--group", self._queue.share_group]
        more = [] if move == ("--delete",) else ["--topic", self._queue.source, "--execute"]
        until = time.monotonic() + 90
        while True:
            command = [*self._java, _COMMAND, *given, *move, *more]
            answer = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
            told = answer.stdout + answer.stderr
            if answer.returncode == 0 and "rror" not in told:
                break
            # Members that were killed are members until their session is over.
            assert time.monotonic() < until, told
            time.sleep(1)
        monkey.start(self._queue.tasks)
