"""A Kafka source's surroundings on the real broker: topics, what is in them, and attempts of its task."""

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from ringfence.connectors.api import OffsetReader, RecordBatch, SourceRecord, SourceTask
from ringfence.connectors.builtin.kafka_source.cluster import Cluster
from ringfence.connectors.builtin.kafka_source.task import KafkaSourceTask
from ringfence.fencing.task.source_task import SourceTaskRun
from ringfence.fencing.task.task_spec import Outcome, Plugin, TaskSpec
from ringfence.fencing.topics.reporter import Reporter
from tests.guarantees.stage import Plain, Stage
from tests.support.waiting import eventually

Seen = tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...], int]
"""Partition, key, value, headers, timestamp."""

START = int(time.time() * 1000) - 60_000
"""Recent: brokers delete what is older than a week as soon as they look."""


def copy_settings(stage: Stage, topic: str, **more: str) -> dict[str, str]:
    """Return the settings of a connector that copies a topic byte by byte within its cluster. more: others, with "_"
    for each dot.
    """
    converter = "org.apache.kafka.connect.converters.ByteArrayConverter"
    return {
        "name": "numbers",
        "topics": topic,
        "source.cluster.alias": "here",
        "source.cluster.bootstrap.servers": stage.connection.bootstrap,
        "target.cluster.bootstrap.servers": stage.connection.bootstrap,
        "consumer.poll.timeout.ms": "100",
        **{f"{part}.converter": converter for part in ("key", "value", "header")},
        **{name.replace("_", "."): value for name, value in more.items()},
    }


class Context:
    """What the framework gives a connector."""

    trial = False

    def __init__(self) -> None:
        self.asked = threading.Event()

    @property
    def offset_reader(self) -> OffsetReader:
        raise AssertionError("not used")

    def why_closed(self, topic: str) -> str:
        return ""

    def warn(self, text: str) -> None:
        pass

    def request_task_reconfiguration(self) -> None:
        self.asked.set()

    def raise_error(self, error: Exception) -> None:
        raise AssertionError("not expected") from error


def await_topic(stage: Stage, topic: str, partitions: int) -> None:
    """A broker knows a new topic a moment after its creation."""
    cluster = Cluster({"bootstrap.servers": stage.connection.bootstrap})
    eventually(lambda: cluster.topics().get(topic) == partitions, 30, f"{topic} with {partitions} partitions")


def write(bootstrap: str, topic: str, numbers: Sequence[int], *, commit: bool = True) -> None:
    """One transaction: keys, headers, a tombstone for each fifth number, a timestamp each, over the partitions.

    One batch for each partition, also where the machine is busy: nothing goes out before the flush.
    """
    settings = {"bootstrap.servers": bootstrap, "linger.ms": 10_000}
    producer = Producer({**settings, "transactional.id": f"{topic}-{numbers[0]}-{commit}"})
    producer.list_topics(topic, 30)  # records that wait for the topic's partitions can go out as several batches
    producer.init_transactions(30)
    producer.begin_transaction()
    for number in numbers:
        value = None if number % 5 == 0 else b"v%d" % number
        headers: list[tuple[str, Any]] = [("h", b"%d" % number), ("none", None), ("h", b"again")] if number % 2 else []
        producer.produce(topic, value, b"k%d" % number, number % 3, timestamp=START + number, headers=headers)
    producer.flush(30)
    if commit:
        producer.commit_transaction(30)
    else:
        producer.abort_transaction(30)


def committed(bootstrap: str, topic: str, login: Mapping[str, str] | None = None) -> list[Seen]:
    """What a read_committed reader sees, by partition and in its order."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "none", "enable.partition.eof": True}
    reader = Consumer({**settings, **(login or {})})
    found: list[Seen] = []
    try:
        ends = 0
        partitions = sorted(reader.list_topics(topic, 10).topics[topic].partitions)
        reader.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        while ends < len(partitions):
            message = reader.poll(60)
            assert message is not None
            if message.error() is not None:
                ends += 1
                continue
            given: Any = message.headers() or ()
            headers = tuple((str(name), value) for name, value in given)
            place = int(message.partition() or 0)
            found.append((place, message.key(), message.value(), headers, message.timestamp()[1]))
    except KafkaException as error:
        raise AssertionError(str(error)) from error
    finally:
        reader.close()
    return sorted(found, key=lambda seen: (seen[0], seen[4]))


class Copy:
    """An attempt of the source's one task, on a thread. `die_at`: the batch that is lost with it."""

    def __init__(
        self,
        stage: Stage,
        config: Mapping[str, str],
        attempt: int,
        *,
        raw: bool = True,
        die_at: int = -1,
        mode: str = "enabled",
        traced: bool = False,
    ) -> None:
        class Dying(KafkaSourceTask):
            polls = 0

            def poll(self) -> Sequence[SourceRecord] | RecordBatch | None:
                batch = super().poll()
                self.polls += bool(batch)
                if self.polls == die_at:
                    raise RuntimeError("the task dies here")
                return batch

        kind: type[SourceTask] = Dying
        worker = {
            "offset.flush.interval.ms": "60000",
            "exactly.once.source.support": mode,
        }
        place = stage.place(attempt)
        spec = TaskSpec(
            stage.connection, stage.group, stage.topics, stage.task, place, "", config, config, worker, traced=traced
        )
        self._reporter = Reporter(spec.connection, spec.topics.status, spec.topics.events)
        self.outcome: Outcome | None = None
        self.run = SourceTaskRun(spec, Plugin(kind, config, Plain(raw)), self._reporter)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.outcome = self.run.run()
        finally:
            self._reporter.close()

    def end(self) -> Outcome:
        self.run.end()
        return self.ended()

    def ended(self) -> Outcome:
        self.thread.join(60)
        assert self.outcome is not None, "the attempt still runs"
        return self.outcome
