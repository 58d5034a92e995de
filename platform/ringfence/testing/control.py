"""Writes the config topic of one connector as a leader does: for attempts without leader, worker or Spark."""

from collections.abc import Mapping, Sequence

from ringfence.fencing.clock import Deadline
from ringfence.fencing.ids import ConnectorName, Generation, Incarnation, TaskId, WorkerId, task_transactional_id
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.fencer import Fencer
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.fencing.topics.config_records import (
    CommitRecord,
    ConfigRecord,
    ConnectorRecord,
    PlacementRecord,
    TaskCountRecord,
    TaskRecord,
    encode,
)
from ringfence.fencing.topics.connector_state import Placement
from ringfence.fencing.topics.names import Topics
from ringfence.fencing.topics.topic_log import TopicLog
from ringfence.fencing.transactions.producer import Producer

_SECONDS = 60


class ConfigTopic:
    """Separate topics, and the leader's producer. Not shared between threads; `close` it."""

    def __init__(self, connection: Connection, name: str, connector: str, *, replicas: int = 1) -> None:
        """name: the prefix of its topics and its group. replicas: of each topic."""
        self.connection = connection
        self.group = f"{name}-group"
        self.topics = Topics(f"{name}-config", f"{name}-offsets", f"{name}-status", f"{name}-events")
        self.connector = ConnectorName(connector)
        single = [self.topics.config, self.topics.status, self.topics.events]
        offsets = TopicSpec(self.topics.offsets, 3, replicas, {"cleanup.policy": "compact"})
        topics = [*(TopicSpec(topic, 1, replicas) for topic in single), offsets]
        create_topics(connection, topics, Deadline.after(_SECONDS))
        self.producer = Producer(connection, f"{name}-leader")
        self.producer.init(Deadline.after(_SECONDS))
        self.generation = Generation(-1)
        self.tasks = 0

    def write(self, *records: ConfigRecord) -> int:
        """Write the records in one transaction. Returns the offset of the last record, as the broker reports it.

        Readers see the records when it returns: an attempt that is placed and started at once finds its placement.
        Counting would not work: a broker that is killed, or whose followers leave, may append a marker twice.
        """
        last = -1

        def note(_partition: int, offset: int, _time_ms: int) -> None:
            nonlocal last
            last = max(last, offset)

        self.producer.begin()
        for record in records:
            key, value = encode(record)
            self.producer.produce(self.topics.config, value, key, on_written=note)
        deadline = Deadline.after(_SECONDS)
        while self.producer.flush(deadline.slice(1.0)):
            assert not deadline.expired, f"{self.topics.config} accepted no records for {_SECONDS} s"
        self.producer.commit(deadline)
        self._await_marker(last, deadline)
        return last

    def _await_marker(self, start: int, deadline: Deadline) -> None:
        """Wait for the marker of a commit: the coordinator answers before it is written."""
        log = TopicLog(self.connection, self.topics.config, {0: start}, deadline=deadline)
        try:
            for _ in log.catch_up(deadline, own=self.producer.producer_id):
                pass
        finally:
            log.close()

    def write_generation(self, config: Mapping[str, str], task_configs: Sequence[Mapping[str, str]]) -> None:
        """Write a new generation with these tasks, which is not fenced yet."""
        tasks = [TaskRecord(TaskId(self.connector, n), each) for n, each in enumerate(task_configs)]
        commit = self.write(ConnectorRecord(self.connector, config), *tasks, CommitRecord(self.connector, len(tasks)))
        self.generation = Generation(commit)
        self.tasks = len(tasks)

    def fence(self, tasks: int) -> None:
        """Fence the producers of the tasks 0 to `tasks` - 1, as a fencing round does."""
        ids = [task_transactional_id(self.group, TaskId(self.connector, number)) for number in range(tasks)]
        with Fencer(self.connection, _SECONDS) as fencer:
            fencer.fence(ids, Deadline.after(_SECONDS))

    def count(self) -> None:
        """Write the task count record, which ends the generation's fencing round."""
        self.write(TaskCountRecord(self.connector, self.tasks, self.generation))

    def place_task(self, task: TaskId, attempt: int) -> Placement:
        """Place an attempt, which permits it to run. A newer attempt supersedes an older one."""
        placement = Placement(WorkerId("w"), Incarnation("i"), attempt, self.generation)
        self.write(PlacementRecord(task, placement.worker, placement.incarnation, attempt, self.generation))
        return placement

    def close(self) -> None:
        self.producer.close()
