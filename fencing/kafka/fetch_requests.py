"""Requests for reading a topic through kafka-python: finding partition leaders, and fetching records."""

from collections.abc import Collection
from typing import Final

from kafka.protocol.consumer import FetchRequest
from kafka.protocol.metadata import MetadataRequest

from ringfence.fencing.kafka.kafka_python_client import PythonClient

_WITH_NAMES: Final = 12  # newer versions identify topics by their id
_BYTES: Final = 1024 * 1024


def make_fetch(topic: str, partition: int, position: int, wait_ms: int) -> FetchRequest:
    """Return a request for everything from `position` on, with aborted and control records, without a fetch session."""
    fetch_partition = FetchRequest.FetchTopic.FetchPartition(
        partition=partition,
        current_leader_epoch=-1,
        fetch_offset=position,
        last_fetched_epoch=-1,
        log_start_offset=-1,
        partition_max_bytes=_BYTES,
    )
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=_BYTES,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=[FetchRequest.FetchTopic(topic=topic, partitions=[fetch_partition])],
        forgotten_topics_data=[],
        rack_id="",
        min_version=4,
        max_version=_WITH_NAMES,
    )


async def find_leaders(client: PythonClient, topic: str, partitions: Collection[int]) -> dict[int, int]:
    """Return the leaders of these partitions; a partition without a leader is left out."""
    request_topic = MetadataRequest.MetadataRequestTopic(name=topic)
    answer = await client.send(MetadataRequest(topics=[request_topic], allow_auto_topic_creation=False))
    return {
        partition.partition_index: int(partition.leader_id)
        for each in answer.topics
        for partition in each.partitions
        if partition.partition_index in partitions and partition.leader_id >= 0
    }
