"""Reads the last records of a topic that a connector writes to, for the Topics tab."""

from collections.abc import Mapping

from ringfence.engine.base64_text import encode
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import FencingError
from ringfence.fencing.kafka.topic_tail import Limits, Tail, tail
from ringfence.fencing.leader.fence_targets import list_admin_access
from ringfence.fencing.records.writable_topics import TopicAccess
from ringfence.requests.request import Refusal
from ringfence.worker_config import WorkerConfig


def last_records(
    topic: str,
    config: Mapping[str, str],
    worker: WorkerConfig,
    access: TopicAccess,
    limit: Deadline,
    *,
    committed_only: bool,
) -> dict[str, object]:
    """Return the records as JSON, read from the connector's cluster with the first credentials that work.

    Raises `Refusal`, always for an internal topic: it may contain secrets of others.
    """
    if what := access.internal(topic):
        raise Refusal(403, f"{topic} is {what}: its records are not shown")
    try:
        accesses = list_admin_access(None, config, worker.connection("ringfence-topic-preview"), worker.settings)
    except FencingError as error:
        raise Refusal(400, f"The cluster of topic {topic} cannot be reached: {error}") from error
    troubles = []
    for admin in accesses:
        try:
            return _as_json(tail(admin.connection, topic, limit, Limits(), committed_only=committed_only))
        except FencingError as error:
            troubles.append(f"with {admin.whose}: {error}")
    raise Refusal(500, f"Topic {topic} cannot be read {'; '.join(troubles)}")


def _as_json(tail: Tail) -> dict[str, object]:
    return {
        "records": [
            {
                "partition": each.partition,
                "offset": each.offset,
                "timestamp_ms": each.timestamp_ms,
                "seen": each.visibility.value,
                "key": encode(each.key),
                "key_size": each.key_size,
                "value": encode(each.value),
                "value_size": each.value_size,
                "headers": [[name, encode(value), size] for name, value, size in each.headers],
            }
            for each in tail.records
        ],
        "partitions": [
            {"partition": each.partition, "first": each.first, "stable": each.stable, "end": each.end}
            for each in tail.stretches
        ],
        "partition_count": tail.partitions,
        "complete": tail.complete,
    }
