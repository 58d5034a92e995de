"""Failure cases of KIP-618, for leaders and fencing rounds: a leader dies amid a round, a fence fails, no access.

Those of tasks: `test_failure_cases_of_tasks`. Lost and late writes: `test_unknown_outcomes_of_the_leader`.
"""

import threading
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AclOperation, ResourceType  # type: ignore[attr-defined]

from ringfence.engine.config_topic import ConfigTopic
from ringfence.engine.leader.fencing_round_runner import RoundRunner
from ringfence.engine.leader.leader_thread import Leader
from ringfence.engine.leader.members import identity
from ringfence.engine.leader.offset_migration import OffsetMigration
from ringfence.engine.platform_topics import ensure_topics
from ringfence.engine.plugins import PluginHost
from ringfence.engine.queries.connector_offsets import ConnectorOffsets
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Fatal, FencingError, Retriable
from ringfence.fencing.ids import ConnectorName, Generation
from ringfence.fencing.leader.fence_generation import FenceResult, fence
from ringfence.fencing.leader.fence_targets import AdminAccess
from ringfence.fencing.leader.fencing_round import Round, finish, plan
from ringfence.fencing.topics.config_log import ConfigLog
from ringfence.fencing.topics.config_records import TargetStateRecord
from ringfence.fencing.topics.connector_state import TargetState
from ringfence.fencing.topics.reporter import Reporter
from ringfence.local.guarded_process import wait_until
from ringfence.worker_config import WorkerConfig
from tests.guarantees.stage import Script, Stage
from tests.support.broker import Broker
from tests.support.harsh import Harsh
from tests.support.plugin_hosts import PATIENCE
from tests.support.waiting import eventually

pytestmark = pytest.mark.broker

ALL = (AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE)


def due(stage: Stage) -> Round:
    """The round that a leader finds, who has just read the config topic."""
    log = ConfigLog(stage.connection, stage.topics.config)

    def find() -> Round:
        round_ = plan(log.refresh(Deadline.after(30)).connector(stage.connector), stage.group)
        assert round_ is not None
        return round_

    try:
        # A commit becomes visible a moment after its answer.
        return eventually(find, 10, "a round is due")
    finally:
        log.close()


def end_round(stage: Stage, round_: Round) -> None:
    """Steps 3 and 5."""
    log = ConfigLog(stage.connection, stage.topics.config)
    try:
        stage.write(*finish(round_, log.refresh(Deadline.after(30))))
    finally:
        log.close()


@pytest.mark.parametrize("fenced_before", [False, True])
def test_the_leader_dies_in_the_middle_of_a_round(stage: Stage, fenced_before: bool) -> None:
    """Before or after the fence: nothing of the new generation starts, until the next leader has done all of it."""
    config = {"topic": stage.data}
    stage.configure(config)
    stage.count()
    old = stage.start(Script(), config)
    stage.wait_for(200)
    # A zombie: it hears no news, so that only the fence can stop it.
    with old.run._view._follower._turns.read():
        stage.configure(config)
        ways = [AdminAccess("the worker's credentials", stage.connection)]
        begun = due(stage)
        if fenced_before:
            fence(begun.ids, ways)
        # Here the leader dies. The tasks of the new generation are placed, and wait for the count record.
        script = Script()
        new = stage.start(script, config)
        eventually(lambda: new.run._view.verdict.name == "WAIT", 30, "the new task knows that it has to wait")
        assert script.instances == []
        again = due(stage)
        assert again == begun
        assert fence(again.ids, ways).producers
        end_round(stage, again)
        stage.wait_for(len(stage.visible()) + 200)
    assert old.ended().trace is None
    stage.write(TargetStateRecord(stage.connector, TargetState.STOPPED))
    assert new.ended().trace is None
    stage.exact(400)


def carried_out(runner: RoundRunner, round_: Round, failures: list[FencingError]) -> FenceResult | None:
    """One pass of the leader's loop over its rounds."""
    runner.start(round_, lambda _: False)
    for running in runner.take_finished():
        try:
            return running.result.result()
        except FencingError as error:
            failures.append(error)
            runner.record_failure(round_, error)
    return None


@pytest.fixture
def runner(harsh: Harsh) -> Iterator[RoundRunner]:
    """It fences as a principal that may do nothing yet."""
    offsets = ConnectorOffsets(WorkerConfig.from_environment(harsh.worker("root")), "offsets")
    ways = [AdminAccess("the connector's credentials", harsh.connection("fencer"))]
    made = RoundRunner(lambda _: ways, lambda _: [], 0, lambda: None, OffsetMigration(offsets), wait_until)
    yield made
    made.close()


def round_of(transactional_id: str) -> Round:
    return Round(ConnectorName("c"), Generation(1), [transactional_id], 1, {}, {})


def test_a_fence_that_is_denied_succeeds_once_it_is_granted(
    harsh: Harsh, runner: RoundRunner, unique: Callable[[str], str]
) -> None:
    id_ = unique("denied")
    failures: list[FencingError] = []
    eventually(lambda: carried_out(runner, round_of(id_), failures) or failures, 120, "the broker says no")
    assert isinstance(failures[0], Fatal)
    assert "TransactionalIdAuthorizationFailed" in str(failures[0])
    harsh.grant("fencer", ResourceType.TRANSACTIONAL_ID, id_, AclOperation.WRITE, AclOperation.DESCRIBE)
    done = eventually(lambda: carried_out(runner, round_of(id_), failures), 120, "it is tried again by itself")
    assert done is not None
    assert [one.transactional_id for one in done.producers] == [id_]


@pytest.mark.slow
def test_a_fence_that_finds_no_broker_succeeds_once_it_is_back(
    harsh: Harsh, runner: RoundRunner, unique: Callable[[str], str]
) -> None:
    id_ = unique("away")
    harsh.grant("fencer", ResourceType.TRANSACTIONAL_ID, id_, AclOperation.WRITE, AclOperation.DESCRIBE)
    failures: list[FencingError] = []
    harsh.kafka.kill()
    try:
        eventually(lambda: carried_out(runner, round_of(id_), failures) or failures, 120, "nobody answers")
    finally:
        harsh.kafka.start()
    assert isinstance(failures[0], Retriable)
    done = eventually(lambda: carried_out(runner, round_of(id_), failures), 120, "it is tried again by itself")
    assert done is not None
    assert [one.transactional_id for one in done.producers] == [id_]


class Worker:
    """A candidate for leadership, on its thread."""

    def __init__(self, name: str, environment: dict[str, str], topics_are_there: bool) -> None:
        self.config = WorkerConfig.from_environment(environment)
        self.connection = self.config.connection(name)
        if not topics_are_there:
            ensure_topics(self.connection, self.config, Deadline.after(60))
        self._reporter = Reporter(self.connection, self.config.status_topic, self.config.events_topic)
        record = identity(name, "i", self.config, 4, "1", self._reporter.now_ms())
        self._plugins = PluginHost(call_seconds=PATIENCE)
        config_topic = ConfigTopic(self.config, self.connection)
        self.leader = Leader(self.config, record, self._plugins, self._reporter, config_topic)
        self._stop = threading.Event()
        self._following = threading.Thread(target=config_topic.run, args=(self._stop,), daemon=True)
        self._thread = threading.Thread(target=self.leader.run, args=(self._stop,), daemon=True)

    def start(self) -> None:
        self._following.start()
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(30)
            self._following.join(30)
        self._plugins.close()
        self._reporter.close()


@pytest.fixture
def workers(unique: Callable[[str], str]) -> Iterator[Callable[[str, dict[str, str]], Worker]]:
    """`workers(name, environment)`: all in one group, on the same four topics, which the first one creates."""
    roles = ("CONFIG", "OFFSET", "STATUS", "EVENTS")
    shared = {f"CONNECT_{role}_STORAGE_TOPIC": unique(role.lower()) for role in roles}
    shared |= {f"CONNECT_{role}_STORAGE_REPLICATION_FACTOR": "1" for role in roles}
    shared |= {"CONNECT_GROUP_ID": unique("group"), "CONNECT_EXACTLY_ONCE_SOURCE_SUPPORT": "enabled"}
    shared |= {"CONNECT_OFFSET_STORAGE_PARTITIONS": "1"}
    made: list[Worker] = []

    def make(name: str, environment: dict[str, str]) -> Worker:
        made.append(Worker(name, {**shared, **environment}, bool(made)))
        return made[-1]

    yield make
    for worker in made:
        worker.close()


def test_a_leader_that_cannot_write_the_config_topic_leaves_the_group_to_another(
    harsh: Harsh, workers: Callable[[str, dict[str, str]], Worker]
) -> None:
    able = workers("able", harsh.worker("root"))
    for topic in (able.config.config_topic, able.config.status_topic, able.config.events_topic):
        harsh.grant("leader", ResourceType.TOPIC, topic, *ALL)
    harsh.grant("leader", ResourceType.GROUP, able.config.group_id, AclOperation.READ, AclOperation.DESCRIBE)
    denied = workers("denied", harsh.worker("leader"))
    denied.start()
    failure = eventually(lambda: denied.leader.failure, 90, "it owns the partition, and may not write")
    assert "authorization" in str(failure).lower()
    # It is the only one, and sticky: had it kept its seat, nobody else would ever be given the partition.
    able.start()
    assert able.leader.ready.wait(90)
    assert not denied.leader.ready.is_set()
    able.close()
    harsh.grant("leader", ResourceType.TRANSACTIONAL_ID, "connect-cluster-", *ALL[1:])
    assert denied.leader.ready.wait(90), "it leads, and nobody has restarted it"


def test_a_leader_that_cannot_read_the_config_topic_leaves_the_group_and_says_where(
    broker: Broker, workers: Callable[[str, dict[str, str]], Worker]
) -> None:
    worker = workers("reader", {"CONNECT_BOOTSTRAP_SERVERS": broker.bootstrap})
    topic = worker.config.config_topic
    pen = Producer(worker.connection.librdkafka())
    pen.produce(topic, b"{", b"logger-cluster-x")
    assert pen.flush(30) == 0
    worker.start()
    failure = eventually(lambda: worker.leader.failure, 60, "the record cannot be read")
    assert f"Topic {topic}, offset 0" in str(failure)
    assert not worker.leader.ready.is_set()
    pen.produce(topic, None, b"logger-cluster-x")
    assert pen.flush(30) == 0
    assert worker.leader.ready.wait(60), "it leads once the record is replaced, and nobody has restarted it"
