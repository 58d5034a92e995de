"""The checker is shown to fail: the same crash with transactions, and with a plain producer in their place."""

from collections.abc import Callable, Iterator, Sequence, Set

import pytest
from confluent_kafka import Producer

from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.batch_sender import BatchSender
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.producer_interface import TaskClient
from ringfence.fencing.task.task_spec import TaskSpec
from tests.guarantees.stage import Counting, Script, Stage
from tests.support.broker import Broker


class PlainProducer:
    """Idempotent, and nothing more: what is produced is visible at once, and an abort takes nothing back."""

    producer_id = epoch = -1

    def __init__(self, connection: Connection) -> None:
        self._producer = Producer(connection.librdkafka(enable_idempotence=True, linger_ms=0))
        self.produce = self._producer.produce
        self.serve = self._producer.poll
        self.spent = False

    def init(self, deadline: Deadline) -> None:
        """Fences nobody."""

    def begin(self) -> None:
        """Begins nothing."""

    def commit(self, deadline: Deadline) -> None:
        self._producer.flush(deadline.remaining)

    def abort(self, deadline: Deadline) -> bool:
        self._producer.flush(deadline.remaining)
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
        self._producer.flush(30)


def plain(spec: TaskSpec, timeout_ms: int) -> TaskClient:
    return PlainProducer(spec.connection)


@pytest.fixture
def stage(broker: Broker, unique: Callable[[str], str]) -> Iterator[Stage]:
    made = Stage(Connection(broker.bootstrap), unique("off"))
    yield made
    made.close()


def crash_and_go_on(stage: Stage, new_producer: Callable[[TaskSpec, int], TaskClient] | None) -> None:
    """An attempt that dies with records sent and their offset not yet, and the next one, which reads on."""

    def explode(task: Counting) -> None:
        if task.polls == 10:
            raise RuntimeError("the process dies here")

    config = {
        "topic": stage.data,
        "transaction.boundary": "interval",
        "transaction.boundary.interval.ms": "200000",
    }
    stage.configure(config)
    stage.count()
    stage.start(Script(before_poll=explode), config, new_producer=new_producer).ended()
    stage.start(Script(limit=1000), {**config}, attempt=2, new_producer=new_producer)
    stage.attempts[-1].finish_after(1000)


def test_with_transactions_a_crash_leaves_each_record_once(stage: Stage) -> None:
    crash_and_go_on(stage, None)
    assert stage.exact(1000) == 1000


def test_without_them_the_checker_finds_records_twice(stage: Stage) -> None:
    crash_and_go_on(stage, plain)
    with pytest.raises(AssertionError, match="missing or twice"):
        stage.exact(1000)
    assert set(range(1000)) <= set(stage.visible())
