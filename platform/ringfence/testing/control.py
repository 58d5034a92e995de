"""The config topic of one connector, written as a leader writes it: for attempts without leader, worker or Spark."""

from collections.abc import Mapping, Sequence
from typing import Any

from ringfence.fencing.clock import Deadline
from ringfence.fencing.ids import ConnectorName, Generation, Incarnation, TaskId, WorkerId, task_transactional_id
from ringfence.fencing.kafka.admin import TopicSpec, create_topics
from ringfence.fencing.kafka.fencer import Fencer
from ringfence.fencing.kafka.producer import TransactionalProducer
from ringfence.fencing.kafka.settings import Connection
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

_SECONDS = 60


class ConfigTopic:
    """Topics of its own, and the leader's producer. Not shared between threads; `close` it."""

    def __init__(self, connection: Connection, name: str, connector: str, *, replicas: int = 1) -> None:
        """name: what all its topics and its group begin with. replicas: of each topic."""
        self.connection = connection
        self.group = f"{name}-group"
        self.topics = Topics(f"{name}-config", f"{name}-offsets", f"{name}-status", f"{name}-events")
        self.connector = ConnectorName(connector)
        wanted = [self.topics.config, self.topics.status, self.topics.events]
        offsets = TopicSpec(self.topics.offsets, 3, replicas, {"cleanup.policy": "compact"})
        topics = [*(TopicSpec(topic, 1, replicas) for topic in wanted), offsets]
        create_topics(connection, topics, Deadline.after(_SECONDS))
        self.producer = TransactionalProducer(connection, f"{name}-leader")
        self.producer.init(Deadline.after(_SECONDS))
        self.generation = Generation(-1)
        self.tasks = 0

    def write(self, *records: ConfigRecord) -> int:
        """In one transaction. The offset of the last record, as the broker tells it.

        Counting does not do: a broker that is killed or left by its followers may append a marker twice.
        """
        last = -1

        def note(error: object, message: Any) -> None:  # confluent-kafka's, which only fencing.kafka imports
            nonlocal last
            assert error is None, error
            last = max(last, message.offset() or 0)

        self.producer.begin()
        for record in records:
            key, value = encode(record)
            self.producer.produce(self.topics.config, value, key, on_delivery=note)
        deadline = Deadline.after(_SECONDS)
        while self.producer.flush(deadline.slice(1.0)):
            assert not deadline.expired, f"{self.topics.config} took no records for {_SECONDS} s"
        self.producer.commit(deadline)
        return last

    def write_generation(self, config: Mapping[str, str], task_configs: Sequence[Mapping[str, str]]) -> None:
        """A new generation with these tasks, which is not fenced yet."""
        tasks = [TaskRecord(TaskId(self.connector, n), each) for n, each in enumerate(task_configs)]
        commit = self.write(ConnectorRecord(self.connector, config), *tasks, CommitRecord(self.connector, len(tasks)))
        self.generation = Generation(commit)
        self.tasks = len(tasks)

    def fence(self, tasks: int) -> None:
        """The producers of the tasks 0 to `tasks` - 1, as a fencing round does."""
        ids = [task_transactional_id(self.group, TaskId(self.connector, number)) for number in range(tasks)]
        with Fencer(self.connection, _SECONDS) as fencer:
            fencer.fence(ids, Deadline.after(_SECONDS))

    def count(self) -> None:
        """The task count record, which ends the generation's fencing round."""
        self.write(TaskCountRecord(self.connector, self.tasks, self.generation))

    def place_task(self, task: TaskId, attempt: int) -> Placement:
        """The permission to run for an attempt. A larger attempt takes it from a smaller one."""
        placement = Placement(WorkerId("w"), Incarnation("i"), attempt, self.generation)
        self.write(PlacementRecord(task, placement.worker, placement.incarnation, attempt, self.generation))
        return placement

    def close(self) -> None:
        self.producer.close()
