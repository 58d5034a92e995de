"""One attempt of a task in a process of its own that freezes itself between the data and the offsets of a commit.

    python -m tests.fencing.driver transactions|plain COMMIT SPEC

At commit number COMMIT, when all data is at the broker and nothing says yet how far the source was read, it prints a
line and stops itself (SIGSTOP); that batch is the source's last. What follows is its parent's: SIGKILL, or SIGCONT
after somebody else has taken over.
"""

import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

from ringfence.fencing.clock import Deadline
from ringfence.fencing.task.source_task import SourceTaskRun
from ringfence.fencing.task.task_spec import Plugin, TaskSpec
from ringfence.fencing.topics.reporter import Reporter
from ringfence.fencing.transactions.client import TransactionalClient
from ringfence.fencing.transactions.producer import Producer
from tests.guarantees.stage import Counting, Plain, Script
from tests.support.untransactional import Untransactional


class Freezing(Producer):
    """The real one, slow at a bad moment."""

    freeze: Callable[[], None]

    def commit(self, deadline: Deadline) -> None:
        self.flush(30)
        self.freeze()
        super().commit(deadline)


class WithoutTransactions(Untransactional):
    """The data first, then the offsets."""

    def __init__(self, spec: TaskSpec, freeze: Callable[[], None]) -> None:
        super().__init__(spec.connection)
        self._offsets_topic = spec.topics.offsets
        self._offsets: list[tuple[bytes | str | None, bytes | str | None]] = []
        self._freeze = freeze

    def produce(
        self, topic: str, value: bytes | str | None = None, key: bytes | str | None = None, *more: Any, **named: Any
    ) -> None:
        if topic == self._offsets_topic:
            self._offsets.append((key, value))
        else:
            super().produce(topic, value, key)

    def commit(self, deadline: Deadline) -> None:
        self.flush(30)
        self._freeze()
        for key, value in self._offsets:
            super().produce(self._offsets_topic, value, key)
        self._offsets.clear()
        self.flush(30)


def main(kind: str, commit: int, text: str) -> None:
    spec = TaskSpec.loads(text)
    left = commit

    def freeze() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            print("between data and offsets", flush=True)
            # To this very thread: sent to the process, another thread may take it, and this one goes on in the
            # meantime.
            signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)

    def new_producer(spec: TaskSpec, timeout_ms: int) -> TransactionalClient:
        if kind == "plain":
            return WithoutTransactions(spec, freeze)
        made = Freezing(spec.connection, spec.transactional_id, transaction_timeout_ms=timeout_ms)
        made.freeze = freeze
        return made

    task = type("Scripted", (Counting,), {"script": Script(batch=10, limit=10 * commit)})
    plugin = Plugin(task, spec.connector_config, Plain(raw=True))
    reporter = Reporter(spec.connection, spec.topics.status, spec.topics.events)
    outcome = SourceTaskRun(spec, plugin, reporter, new_producer=new_producer).run()
    print(outcome.reason, outcome.trace or "", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
