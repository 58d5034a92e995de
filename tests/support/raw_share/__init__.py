"""A member of a share group that is told which offsets it has acquired, markers and gaps, too.

confluent-kafka's share consumer shows records only, answers for markers by itself, and cannot renew a lock or ask for
an exact number of records. One broker, one topic with one partition.
"""

import base64
import contextlib
import time
import uuid
from typing import Any

from kafka.errors import for_code
from kafka.protocol.api_message import ApiMessage
from kafka.record.memory_records import MemoryRecords

from ringfence.fencing.errors import Retriable
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.share_groups import ShareGroupAdmin
from tests.support.share_heartbeat import ShareGroupHeartbeatRequest

GAP, RENEW = 0, 4


class ShareFetchRequest(ApiMessage, load_json=__name__):  # type: ignore[call-arg,misc]  # no types
    """Acquire records. ShareAcquireMode 1: exactly as many as asked for."""


class ShareFetchResponse(ApiMessage, load_json=__name__):  # type: ignore[call-arg,misc]
    """The answer: batches, and which of their offsets are acquired."""


class ShareAcknowledgeRequest(ApiMessage, load_json=__name__):  # type: ignore[call-arg,misc]
    """Say what became of acquired offsets."""


class ShareAcknowledgeResponse(ApiMessage, load_json=__name__):  # type: ignore[call-arg,misc]
    """The answer."""


class RawShareMember:
    """Joined when it is made, and has something to read then."""

    def __init__(self, connection: Connection, group: str, topic: str) -> None:
        self._admin = ShareGroupAdmin(connection)  # not a shared one: locks end with the connection
        self._group, self._topic = group, topic
        self._member = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        self._epoch = self._session = 0
        self._beat_at = 0.0
        self._assigned: list[tuple[Any, int]] = []
        until = time.monotonic() + 60
        while not self._assigned:
            assert time.monotonic() < until, "the member has nothing to read"
            with contextlib.suppress(Retriable):  # a broker that has just been started has no coordinator yet
                self._heartbeat()
            time.sleep(0.05)

    @property
    def has_session(self) -> bool:
        """With the partition's leader, which keeps its state in memory for as long as there is one."""
        return self._session > 0

    def _heartbeat(self) -> None:
        topics = [self._topic] if self._epoch == 0 else None
        answer = self._send(
            ShareGroupHeartbeatRequest(
                group_id=self._group,
                member_id=self._member,
                member_epoch=self._epoch,
                rack_id=None,
                subscribed_topic_names=topics,
            ),
        )
        self._epoch = answer.member_epoch
        self._beat_at = time.monotonic() + answer.heartbeat_interval_ms / 1000
        if answer.assignment is not None:
            self._assigned = [(one.topic_id, n) for one in answer.assignment.topic_partitions for n in one.partitions]

    def _send(self, request: Any) -> Any:
        answer = self._admin._send_one(self._group, request, "Asking as a member")
        if answer.error_code and for_code(answer.error_code).retriable:
            raise Retriable(str(answer))
        assert answer.error_code == 0, answer
        return answer

    def fetch(self, limit: int, wait_ms: int = 300) -> tuple[list[tuple[int, int, int]], set[int]]:
        """Acquire exactly `limit` offsets where there are so many.

        Returns first and last offset and delivery count of each range, and the offsets in the answer that hold a
        record.
        """
        if time.monotonic() > self._beat_at:
            self._heartbeat()
        topic_of = ShareFetchRequest.FetchTopic
        part_of = topic_of.FetchPartition
        wanted = [
            topic_of(topic_id=topic, partitions=[part_of(partition_index=number, acknowledgement_batches=[])])
            for topic, number in (self._assigned if self._session == 0 else [])
        ]
        request = ShareFetchRequest(
            group_id=self._group,
            member_id=self._member,
            share_session_epoch=self._session,
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=1 << 20,
            max_records=limit,
            batch_size=limit,
            share_acquire_mode=1,
            is_renew_ack=False,
            topics=wanted,
            forgotten_topics_data=[],
        )
        answer = self._send(request)
        self._session += 1
        acquired: list[tuple[int, int, int]] = []
        records: set[int] = set()
        for topic in answer.responses:
            for found in topic.partitions:
                assert found.error_code == 0 or for_code(found.error_code).retriable, found
                acquired += [(one.first_offset, one.last_offset, one.delivery_count) for one in found.acquired_records]
                batches = MemoryRecords(bytes(found.records or b""))
                while (batch := batches.next_batch()) is not None:
                    if not batch.is_control_batch:
                        records |= {one.offset for one in batch}
        return acquired, records

    def acknowledge(self, answers: list[tuple[int, int, int]]) -> int:
        """First and last offset, and what is said of them: Kafka's numbers. Returns the partition's error code."""
        topic_of = ShareAcknowledgeRequest.AcknowledgeTopic
        part_of = topic_of.AcknowledgePartition
        batch_of = part_of.AcknowledgementBatch
        batches = [batch_of(first_offset=a, last_offset=b, acknowledge_types=[kind]) for a, b, kind in sorted(answers)]
        ((topic, number),) = self._assigned
        part = part_of(partition_index=number, acknowledgement_batches=batches)
        answer = self._send(
            ShareAcknowledgeRequest(
                group_id=self._group,
                member_id=self._member,
                share_session_epoch=self._session,
                is_renew_ack=any(kind == RENEW for _, _, kind in answers),
                topics=[topic_of(topic_id=topic, partitions=[part])],
            )
        )
        self._session += 1
        ((found,),) = [one.partitions for one in answer.responses]
        return int(found.error_code)

    def close(self) -> None:
        """Leave the group: what it holds is released, by the end of its connection at the latest."""
        self._epoch = -1
        with contextlib.suppress(Retriable):  # the broker may be gone
            self._heartbeat()
        self._admin.close()
