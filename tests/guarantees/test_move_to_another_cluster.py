"""A cluster's connectors move to a cold standby: topics mirrored, offsets restored there, the old side fenced."""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ringfence.cli import main
from ringfence.connectors.builtin.kafka_source.connector import KafkaSourceConnector
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Fenced
from ringfence.fencing.ids import task_transactional_id
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.topics.config_log import ConfigLog
from ringfence.fencing.topics.connector_state import TargetState
from ringfence.fencing.transactions.producer import Producer
from ringfence.recovery import backup_format
from ringfence.recovery.backup_format import Copy
from ringfence.recovery.restore import Restore
from ringfence.testing.connector_run import ConnectorRun
from tests.guarantees.stage import Script, Stage
from tests.support.broker import Broker, running_kafka
from tests.support.lost_topics import worker

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def standby(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    with running_kafka(tmp_path_factory.mktemp("standby")) as kafka:
        yield Connection(kafka.bootstrap)


@pytest.fixture
def name(unique: Callable[[str], str]) -> str:
    return unique("moved")


def mirror(primary: Stage, standby: Stage, folder: Path) -> None:
    """Copy the data topic, under its own name, until the copy is complete."""
    config = {
        "source.cluster.bootstrap.servers": primary.connection.bootstrap,
        "target.cluster.bootstrap.servers": standby.connection.bootstrap,
        "source.cluster.alias": "primary",
        "target.cluster.alias": "standby",
        "topics": primary.data,
        "replication.policy.class": "identity",
        "replication.factor": "1",
        "consumer.poll.timeout.ms": "100",
        **{f"{kind}.converter": "ByteArrayConverter" for kind in ("key", "value", "header")},
    }
    run = ConnectorRun(
        standby.connection.bootstrap, f"mirror-{standby.data}", KafkaSourceConnector, config, str(folder)
    )
    with closing(run):
        run.start(1)
        standby.wait_for(len(primary.visible()))


def take_last_copy(stage: Stage, folder: Path) -> Copy:
    settings, file = folder / "worker.properties", folder / "last.json"
    settings.write_text("".join(f"{name}={value}\n" for name, value in worker(stage).settings.items()))
    assert main(["backup", str(file), "--final", "--config", str(settings)]) == 0
    return backup_format.loads(file.read_text())


def target_state(stage: Stage) -> TargetState:
    log = ConfigLog(stage.connection, stage.topics.config, Deadline.after(30))
    try:
        return log.refresh(Deadline.after(30)).connector(stage.connector).target
    finally:
        log.close()


def test_every_record_is_there_once_after_the_move(
    broker: Broker, standby: Connection, name: str, tmp_path: Path
) -> None:
    config = {"topic": f"{name}-data"}
    with closing(Stage(Connection(broker.bootstrap), name)) as primary, closing(Stage(standby, name)) as there:
        primary.configure(config)
        primary.count()
        primary.start(Script(limit=1000), config).finish_after(1000)
        # A task that is frozen with an open transaction when the workers are gone, and wakes up after the move.
        zombie = Producer(primary.connection, task_transactional_id(primary.group, primary.task))
        zombie.init(Deadline.after(30))
        zombie.begin()
        zombie.produce(primary.data, b"1000")
        assert zombie.flush(30) == 0
        copy = take_last_copy(primary, tmp_path)
        assert [one.offset for one in copy.offsets] == [{"next": 1000}]
        assert copy.connectors[primary.connector].state is TargetState.RUNNING
        assert target_state(primary) is TargetState.STOPPED
        mirror(primary, there, tmp_path)
        with closing(zombie), pytest.raises(Fenced):
            zombie.commit(Deadline.after(30))
        assert primary.exact(1000) == 1000

        done = Restore(worker(there), None, print).run(copy, resume=True)
        assert (done.connectors, done.offsets, done.stopped) == (1, 1, False)
        there.configure(config)
        there.count()
        there.start(Script(limit=2000), config).finish_after(2000)
        assert there.exact(2000) == 2000


def test_nothing_is_stopped_where_the_copy_could_not_be_kept(broker: Broker, name: str) -> None:
    with closing(Stage(Connection(broker.bootstrap), name)) as primary:
        primary.configure({"topic": primary.data})
        with pytest.raises(OSError, match="disk"), Restore(worker(primary), None, print).last_copy():
            raise OSError("The disk is full")
        assert target_state(primary) is TargetState.RUNNING
