"""Deletes the platform's topics below a worker."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from ringfence.engine.platform_topics import ensure_topics
from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.topic_admin import delete_topics, topic_ids
from ringfence.fencing.topics.topic_ids import TopicIds
from ringfence.worker_config import WorkerConfig
from tests.guarantees.stage import Stage
from tests.support.broker import Broker
from tests.support.waiting import eventually


def worker(stage: Stage) -> WorkerConfig:
    names = {"CONFIG": stage.topics.config, "OFFSET": stage.topics.offsets, "STATUS": stage.topics.status}
    names["EVENTS"] = stage.topics.events
    return WorkerConfig.from_environment(
        {
            **{f"CONNECT_{role}_STORAGE_TOPIC": name for role, name in names.items()},
            **{f"CONNECT_{role}_STORAGE_REPLICATION_FACTOR": "1" for role in names},
            "CONNECT_OFFSET_STORAGE_PARTITIONS": "3",
            "CONNECT_BOOTSTRAP_SERVERS": stage.connection.bootstrap,
            "CONNECT_GROUP_ID": stage.group,
            "CONNECT_EXACTLY_ONCE_SOURCE_SUPPORT": "enabled",
        }
    )


def lose(stage: Stage, topic: str) -> None:
    delete_topics(stage.connection, [topic], Deadline.after(30))
    eventually(lambda: topic_ids(stage.connection, [topic], Deadline.after(30))[topic] is None, 30, f"{topic} is gone")


def known(stage: Stage) -> TopicIds:
    return ensure_topics(stage.connection, worker(stage), Deadline.after(60))


@contextmanager
def new_stage(broker: Broker, unique: Callable[[str], str]) -> Iterator[Stage]:
    made = Stage(Connection(broker.bootstrap), unique("lost"))
    names = [made.topics.config, made.topics.offsets]

    def find_ids() -> dict[str, str | None]:
        found = topic_ids(made.connection, names, Deadline.after(30))
        return found if all(found.values()) else {}

    found = eventually(find_ids, 30, "the ids of the new topics")
    made.topics = replace(
        made.topics, config_id=str(found[made.topics.config]), offsets_id=str(found[made.topics.offsets])
    )
    yield made
    made.close()
