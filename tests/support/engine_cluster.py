"""A leader on a real broker, without processes of its own."""

import threading
import time
from collections.abc import Callable, Mapping

import pytest

from ringfence.engine.config_topic import ConfigTopic
from ringfence.engine.leader.command_service import CommandService
from ringfence.engine.leader.leader_thread import Leader
from ringfence.engine.leader.members import identity
from ringfence.engine.platform_topics import ensure_topics, topics_of
from ringfence.engine.plugins import PluginHost
from ringfence.engine.preflight.topic_rules import TopicRules
from ringfence.engine.preflight.validation import Validation, ValidationErrors
from ringfence.fencing.clock import Deadline
from ringfence.fencing.ids import ConnectorName, TaskId
from ringfence.fencing.offsets.source_offsets import SourceOffsets, read_offsets
from ringfence.fencing.task.task_spec import TaskSpec
from ringfence.fencing.topics import events
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.connector_state import Placement
from ringfence.fencing.topics.events import Event
from ringfence.fencing.topics.reporter import Reporter
from ringfence.fencing.topics.status import FAILED, SUPERSEDED, State, TaskStatus
from ringfence.fencing.topics.topic_log import TopicLog
from ringfence.requests.request import SentCommand
from ringfence.worker_config import WorkerConfig
from tests.support.broker import Broker
from tests.support.plugin_hosts import PATIENCE
from tests.support.waiting import eventually

C = ConnectorName("numbers")


T0 = TaskId(C, 0)


class Cluster:
    """A leader and no launcher: the test plays the tasks."""

    def __init__(
        self,
        broker: Broker,
        unique: Callable[[str], str],
        installed: Mapping[str, str],
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """settings: more of the worker's, as `CONNECT_*`."""
        topics = {
            f"CONNECT_{role}_STORAGE_TOPIC": unique(role.lower()) for role in ("CONFIG", "OFFSET", "STATUS", "EVENTS")
        }
        factors = {f"{name.removesuffix('_TOPIC')}_REPLICATION_FACTOR": "1" for name in topics}
        self.config = WorkerConfig.from_environment(
            {
                **topics,
                **factors,
                "CONNECT_BOOTSTRAP_SERVERS": broker.bootstrap,
                "CONNECT_GROUP_ID": unique("group"),
                "CONNECT_EXACTLY_ONCE_SOURCE_SUPPORT": "enabled",
                "CONNECT_OFFSET_STORAGE_PARTITIONS": "1",
                **(settings or {}),
            }
        )
        self.connection = self.config.connection("test")
        ensure_topics(self.connection, self.config, Deadline.after(60))
        self.reporter = Reporter(self.connection, self.config.status_topic, self.config.events_topic)
        self.record = identity("w1", "i1", self.config, 4, "1", self.reporter.now_ms())
        self.plugins = PluginHost(environment=installed, call_seconds=PATIENCE)
        self.config_topic = ConfigTopic(self.config, self.connection)
        self.leader = Leader(self.config, self.record, self.plugins, self.reporter, self.config_topic)
        self._refusals = ValidationErrors(self.config, lambda _limit: None, self._known_state)
        topic_rules = TopicRules(self.config, lambda: None, lambda: self.leader.statuses().topics)
        self.validation = Validation(self.plugins, self.config, self._refusals, topic_rules)
        self.commands = CommandService(self.leader, self.plugins, self.reporter, self.connection, self.validation)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self.leader.run, args=(self._stop,))
        self._following = threading.Thread(target=self.config_topic.run, args=(self._stop,))

    def _known_state(self) -> tuple[ClusterState | None, bool]:
        written = self.leader.term_state()
        return written, written is not None

    def start(self) -> None:
        self._following.start()
        self._thread.start()
        self.reporter.status(self.record)
        assert self.leader.ready.wait(60)

    def close(self) -> None:
        self._stop.set()
        self._thread.join(30)
        if self._following.is_alive():
            self._following.join(30)
        self._refusals.close()
        self.plugins.close()
        self.reporter.close()

    def command(
        self, kind: str, body: Mapping[str, object] | None = None, limit: Deadline | None = None, on: str | None = C
    ) -> dict[str, object]:
        wanted: SentCommand = {"kind": kind, "connector": on, "body": body or {}, "request_id": f"{kind}-{time.time()}"}
        return self.commands.execute(wanted, limit or Deadline.after(30))

    def placement(self) -> Placement | None:
        return self.leader.state().connector(C).placements.get(0)

    def status(self) -> TaskStatus:
        return eventually(lambda: self.leader.statuses().tasks.get(T0), 10) or pytest.fail("no status")

    def fail(self, placement: Placement) -> None:
        self.reporter.status(
            TaskStatus(
                T0,
                State.FAILED,
                placement.worker,
                placement.generation,
                placement.attempt,
                placement.incarnation,
                "Traceback: the source is away",
                ended=True,
                why=FAILED,
                since_ms=self.reporter.now_ms(),
            )
        )

    def spec(self, placement: Placement) -> TaskSpec:
        connector = self.leader.state().connector(C)
        task = connector.tasks[0].config
        return TaskSpec(
            self.connection, self.config.group_id, topics_of(self.config), T0, placement, task["task.class"],
            connector.config or {}, task, self.config.settings,
        )  # fmt: skip

    def events(self) -> list[Event]:
        log = TopicLog(self.connection, self.config.events_topic)
        try:
            records = list(log.read_to_end(Deadline.after(30)))
        finally:
            log.close()
        return [found for record in records if (found := events.decode(record.value)) is not None]


def at_work(cluster: Cluster) -> TaskStatus:
    """The newest attempt says that it runs."""
    placement = eventually(cluster.placement, 30)
    assert placement is not None
    status = TaskStatus(
        T0, State.RUNNING, placement.worker, placement.generation, placement.attempt, placement.incarnation,
        since_ms=cluster.reporter.now_ms(),
    )  # fmt: skip
    cluster.reporter.status(status)
    eventually(lambda: cluster.status() == status, 30, "it is read")
    return status


def ended(status: TaskStatus) -> TaskStatus:
    return TaskStatus(
        T0, State.UNASSIGNED, status.worker, status.generation, status.attempt, status.incarnation,
        ended=True, why=SUPERSEDED, since_ms=status.since_ms + 1,
    )  # fmt: skip


PARTITION = {"id": 0}


def kept(cluster: Cluster, topic: str) -> SourceOffsets:
    return read_offsets(cluster.connection, topic, C, Deadline.after(60))


def at(cluster: Cluster, topic: str) -> object:
    offset = kept(cluster, topic).offset(PARTITION)
    return offset and offset["seqno"]


def move(cluster: Cluster, seqno: int) -> None:
    offset = {"partition": PARTITION, "offset": {"seqno": seqno}}
    answer = cluster.command("alter_offsets", {"offsets": [offset]})
    assert answer["ok"] is True, answer
