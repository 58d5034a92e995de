"""What an attempt leaves behind: no transaction that readers of committed records would have to wait for."""

from collections.abc import Callable, Iterator

import pytest

from connectors.api import SourceRecord
from fencing.clock import Deadline
from fencing.kafka.admin import TopicSpec, create_topics
from fencing.kafka.settings import Connection
from fencing.kafka.transactions import Transaction, TransactionProber
from tests.guarantees.stage import PARTITION, Counting, Script, Stage
from tests.support.broker import Broker

pytestmark = pytest.mark.broker

LONG = {"producer.override.transaction.timeout.ms": "600000"}


@pytest.fixture
def stage(broker: Broker, unique: Callable[[str], str]) -> Iterator[Stage]:
    made = Stage(Connection(broker.bootstrap), unique("open"))
    yield made
    made.close()


def transaction_of(stage: Stage) -> Transaction:
    """What the coordinator knows of the task's id."""
    with TransactionProber(stage.connection) as prober:
        return prober.transactions([f"{stage.group}-{stage.connector}-0"], Deadline.after(30))[0]


class TooLarge(Counting):
    """Its records are larger than their topic takes; its transactions reach the offsets topic, too."""

    def record(self, number: int) -> SourceRecord:
        return SourceRecord(PARTITION, {"next": number + 1}, f"{self.topic}-small", b"x" * 2000)


def test_a_commit_that_the_broker_refuses_is_aborted(stage: Stage) -> None:
    create_topics(
        stage.connection, [TopicSpec(f"{stage.data}-small", config={"max.message.bytes": "500"})], Deadline.after(30)
    )
    config = {"topic": stage.data, **LONG}
    stage.configure(config)
    stage.count()
    outcome = stage.start(Script(limit=1), config, kind=TooLarge).ended(120)
    assert outcome.trace is not None
    assert "MSG_SIZE_TOO_LARGE" in outcome.trace
    assert not outcome.left_open
    assert not transaction_of(stage).open
    assert stage.offset() == 0
