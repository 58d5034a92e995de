"""Lists and describes the topics of the workers' cluster."""

from typing import Final

from ringfence.engine.preflight.topic_rules import TopicRules
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import FencingError
from ringfence.fencing.kafka.topic_list import topic_infos, topic_names
from ringfence.requests.refusal import Refusal
from ringfence.requests.topic_questions import DescribeTopics
from ringfence.worker_config import WorkerConfig

MOST_DESCRIBED: Final = 200


def describe_topics(
    request: DescribeTopics, worker: WorkerConfig, rules: TopicRules, limit: Deadline
) -> dict[str, object]:
    """Describe these topics; without `names`, return all names and which of them are internal. Raises `Refusal`."""
    connection, access = worker.connection("ringfence-topics"), rules.access("")
    try:
        if request.names is None:
            names = topic_names(connection, limit)
            return {"names": names, "internal": {name: what for name in names if (what := access.internal(name))}}
        topics = topic_infos(connection, request.names[:MOST_DESCRIBED], limit)
    except FencingError as error:
        raise Refusal(500, f"The topics of the workers' cluster cannot be listed: {error}") from error
    return {
        "topics": [
            {
                "name": each.name,
                "partitions": each.partitions,
                "replicas": each.replicas,
                "offsets": each.offsets,
                "newest_ms": each.newest_ms,
                "settings": each.settings,
                "internal": access.internal(each.name),
            }
            for each in topics
        ]
    }
