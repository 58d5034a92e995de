"""The end of an attempt that Kafka did not take is reported again: the leader places a task again only then."""

import threading
from collections.abc import Callable

from ringfence.engine.config_topic import ConfigTopic
from ringfence.engine.spark.driver import Lost, SparkHost
from ringfence.engine.spark.launcher import Launcher
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.task.task_spec import TaskSpec
from ringfence.fencing.topics.reporter import Reporter
from ringfence.fencing.topics.status import LOST, StatusRecord, WorkerRecord
from tests.guarantees.stage import Stage
from tests.support.broker import Broker
from tests.support.lost_topics import worker
from tests.support.waiting import eventually


class Losing(Reporter):
    """Loses the first two status records, as in an outage of Kafka that lasts longer than it keeps reports."""

    lost = 0

    def status(self, record: StatusRecord, on_delivery: Callable[[bool], None] | None = None) -> None:
        if self.lost < 2:
            self.lost += 1
            if on_delivery is not None:
                on_delivery(False)
        else:
            super().status(record, on_delivery)


class Crashing(SparkHost):
    """Each attempt is lost at once, so that no Spark is needed."""

    def __init__(self) -> None:
        pass

    def submit(self, spec: TaskSpec, on_end: Callable[..., None], variables: object = None) -> None:
        on_end(spec, Lost("its process was killed"))

    def runs(self, spec: TaskSpec) -> bool:
        return False


def test_the_end_of_an_attempt_reaches_the_leader_after_an_outage(broker: Broker, unique: Callable[[str], str]) -> None:
    stage = Stage(Connection(broker.bootstrap), unique("untold"))
    stage.configure({"name": "numbers", "connector.class": "VerifiableSource"})
    stage.count()
    placement = stage.place(1)
    record = WorkerRecord(placement.worker, placement.incarnation, "enabled", 4, "0", 0)
    reporter = Losing(stage.connection, stage.topics.status, stage.topics.events)
    stop = threading.Event()
    config_topic = ConfigTopic(worker(stage), stage.connection)
    launcher = Launcher(worker(stage), record, reporter, config_topic)
    following = threading.Thread(target=config_topic.run, args=(stop,))
    thread = threading.Thread(target=launcher.run, args=(Crashing(), stop))
    following.start()
    thread.start()
    try:

        def reason() -> str:
            last = stage.status()
            return "" if last is None else last.why

        eventually(lambda: reason() == LOST, 60, reason)
        assert reporter.lost == 2
    finally:
        stop.set()
        thread.join(30)
        following.join(30)
        reporter.close()
        stage.close()
