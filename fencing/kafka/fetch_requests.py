"""Requests for reading a topic through kafka-python: finding partition leaders, and fetching records."""

from collections.abc import Collection
from typing import Final

from kafka.protocol.consumer import FetchRequest
from kafka.protocol.metadata import MetadataRequest

from ringfence.fencing.kafka.python_client import PythonClient

_WITH_NAMES: Final = 12  # newer versions identify topics by their id
_BYTES: Final = 1024 * 1024


def make_fetch(topic: str, partition: int, position: int, wait_ms: int) -> FetchRequest:
    """Return a request for everything from `position` on, with aborted and control records, without a fetch session."""
    wanted = FetchRequest.FetchTopic.FetchPartition(
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
        topics=[FetchRequest.FetchTopic(topic=topic, partitions=[wanted])],
        forgotten_topics_data=[],
        rack_id="",
        min_version=4,
        max_version=_WITH_NAMES,
    )


async def find_leaders(client: PythonClient, topic: str, partitions: Collection[int]) -> dict[int, int]:
    """Return the leaders of these partitions; a partition without a leader is left out."""
    wanted = MetadataRequest.MetadataRequestTopic(name=topic)
    answer = await client.send(MetadataRequest(topics=[wanted], allow_auto_topic_creation=False))
    return {
        found.partition_index: int(found.leader_id)
        for topic_found in answer.topics
        for found in topic_found.partitions
        if found.partition_index in partitions and found.leader_id >= 0
    }
