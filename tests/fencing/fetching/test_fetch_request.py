"""Fetch has the bytes of kafka-python, another implementation, in every version."""

from typing import Any
from uuid import UUID

import pytest
from kafka.protocol.consumer import FetchRequest, FetchResponse

from ringfence.fencing.fetching.fetched_batches import READ_COMMITTED, Fetch, FetchedPartition, Position
from ringfence.fencing.transactions.messages import NO_TOPIC_ID, usable_versions
from ringfence.fencing.transactions.wire import MalformedResponse, Reader

TOPIC_ID = UUID(int=0x1234567890ABCDEF1234567890ABCDEF)
OURS = Fetch(
    {("a", 0): Position(2**40, 7, 6), ("a", 3): Position(0)},
    {"a": TOPIC_ID.bytes},
    READ_COMMITTED,
    500,
    1,
    8_000_000,
    2_000_000,
    "rack",
)
VERSIONS = range(12, 17)


@pytest.mark.parametrize("version", VERSIONS)
def test_requests(version: int) -> None:
    topic = FetchRequest.FetchTopic
    places = [(0, 7, 2**40, 6), (3, -1, 0, -1)]
    partitions = [
        topic.FetchPartition(
            partition=number,
            current_leader_epoch=epoch,
            fetch_offset=offset,
            last_fetched_epoch=last,
            log_start_offset=-1,
            partition_max_bytes=2_000_000,
        )
        for number, epoch, offset, last in places
    ]
    theirs = FetchRequest(
        replica_id=-1,
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=8_000_000,
        isolation_level=1,
        session_id=0,
        session_epoch=-1,
        topics=[topic(topic="a", topic_id=TOPIC_ID, partitions=partitions)],
        forgotten_topics_data=[],
        rack_id="rack",
    )
    assert OURS.api == theirs.API_KEY
    assert b"".join(OURS.encode(version)) == bytes(theirs.encode(version=version))


@pytest.mark.parametrize("version", VERSIONS)
def test_responses(version: int) -> None:
    answer: Any = FetchResponse.FetchableTopicResponse
    part = answer.PartitionData

    def partition(number: int, error: int, aborted: list[tuple[int, int]], records: bytes) -> Any:
        return part(
            partition_index=number,
            error_code=error,
            high_watermark=9,
            last_stable_offset=8,
            log_start_offset=1,
            aborted_transactions=[part.AbortedTransaction(producer_id=one, first_offset=two) for one, two in aborted],
            preferred_read_replica=-1,
            records=records,
        )

    partitions = [partition(0, 0, [(2**40, 5), (7, 6)], b"records" * 50), partition(3, 6, [], b"")]
    theirs = FetchResponse(
        throttle_time_ms=5,
        error_code=0,
        session_id=0,
        responses=[answer(topic="a", topic_id=TOPIC_ID, partitions=partitions)],
    )
    content = bytes(theirs.encode(version=version))
    ours = OURS.decode(version, Reader(content))
    assert (ours.throttle_ms, ours.error) == (5, 0)
    assert ours.partitions == {
        ("a", 0): FetchedPartition(0, [(2**40, 5), (7, 6)], -1, b"records" * 50, high_watermark=9, stable=8),
        ("a", 3): FetchedPartition(6, [], high_watermark=9, stable=8),
    }
    for size in range(len(content) - 1):
        with pytest.raises((MalformedResponse, ValueError)):
            OURS.decode(version, Reader(content[:size]))


def test_a_topic_without_id_is_asked_for_by_name() -> None:
    nameless = Fetch({("a", 0): Position(0)}, {"a": NO_TOPIC_ID}, READ_COMMITTED, 500, 1, 1, 1)
    assert usable_versions(OURS) == (12, 16)
    assert usable_versions(nameless) == (12, 12)
