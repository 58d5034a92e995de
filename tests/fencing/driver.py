"""One attempt of a task in a process of its own that freezes itself between the data and the offsets of a commit.

    python -m tests.fencing.driver transactions|plain COMMIT SPEC

At commit number COMMIT, when all data is at the broker and nothing says yet how far the source was read, it prints a
line and stops itself (SIGSTOP); that batch is the source's last. What follows is its parent's: SIGKILL, or SIGCONT
after somebody else has taken over.
"""

import signal
import sys
import threading
from collections.abc import Callable, Sequence, Set

from confluent_kafka import Producer

from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.batch_sender import BatchSender
from ringfence.fencing.kafka.producer_interface import Produce, TaskClient
from ringfence.fencing.kafka.transactional_producer import TransactionalProducer
from ringfence.fencing.task.plugin import Plugin
from ringfence.fencing.task.source_task import SourceTaskRun
from ringfence.fencing.task.task_spec import TaskSpec
from ringfence.fencing.topics.reporter import Reporter
from tests.guarantees.stage import Counting, Plain, Script


class Freezing(TransactionalProducer):
    """The real one, slow at a bad moment."""

    freeze: Callable[[], None]

    def commit(self, deadline: Deadline) -> None:
        self.flush(30)
        self.freeze()
        super().commit(deadline)


class WithoutTransactions:
    """Idempotent, and nothing more: the data first, then the offsets."""

    def __init__(self, spec: TaskSpec, freeze: Callable[[], None]) -> None:
        self._producer = Producer(spec.connection.librdkafka(enable_idempotence=True, partitioner="murmur2_random"))
        self._offsets_topic = spec.topics.offsets
        self._offsets: list[tuple[bytes | None, bytes | None]] = []
        self._freeze = freeze
        self.spent = False
        self.producer_id = self.epoch = -1
        self.serve = self._producer.poll
        self.produce: Produce = self._produce

    def _produce(self, topic: str, value: bytes | None, key: bytes | None = None, *more: object) -> None:
        if topic == self._offsets_topic:
            self._offsets.append((key, value))
        else:
            self._producer.produce(topic, value, key)

    def init(self, deadline: Deadline) -> None:
        pass

    def begin(self) -> None:
        pass

    def commit(self, deadline: Deadline) -> None:
        self._producer.flush(30)
        self._freeze()
        for key, value in self._offsets:
            self._producer.produce(self._offsets_topic, value, key)
        self._offsets.clear()
        self._producer.flush(30)

    def abort(self, deadline: Deadline) -> bool:
        self.spent = True
        return True

    def send_offsets(self, offsets: Sequence[tuple[str, int, int]], group_metadata: bytes, deadline: Deadline) -> None:
        raise NotImplementedError

    def flush(self, seconds: float) -> int:
        return int(self._producer.flush(seconds))

    def count_partitions(self, topics: Set[str]) -> int:
        return 1

    @property
    def sender(self) -> BatchSender:
        raise NotImplementedError

    def close(self) -> None:
        self._producer.flush(1)


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

    def new_producer(spec: TaskSpec, timeout_ms: int) -> TaskClient:
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
