"""Projects records into the tables."""

from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.topics.status import State
from ringfence.fencing.topics.topic_ids import TopicIds
from ringfence.projection.projector import Projection
from tests.support.topics import Topic, connector, connector_status, generation, task_status

C = ConnectorName("c")


def project(role: str, topic: Topic, topic_id: str = "id-1", ids: TopicIds | None = None) -> set[str]:
    """A projector that starts, reads all there is, and is killed."""
    projection = Projection(role, f"{role}-topic", topic_id, ids)
    start = projection.start.get(0, 0)
    touched = projection.apply(topic.records[start:], topic.end)
    return touched | projection.remove_others() if role == "config" else touched


def running(tasks: int = 2) -> None:
    config, status = Topic(), Topic()
    config.config(connector("c"), *generation("c", tasks, 1))
    status.status(connector_status("c", State.RUNNING), *(task_status("c", n, State.RUNNING) for n in range(tasks)))
    project("config", config)
    project("status", status)


def progress(topic: Topic, at: int, records: int, **more: object) -> None:
    fields = {"generation": 1, "attempt": 1, "transactions": records // 10, "aborted": 0, "errors": 0, **more}
    topic.event(type="progress", connector="c", worker="w1", time_ms=at, records=records, **{"task": 0, **fields})
