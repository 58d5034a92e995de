"""Reads the consumer groups of a cluster: their members, and the offsets that they have committed.

It uses kafka-python, for the reason in `group_members.py`. Groups of the classic protocol and of KIP-848's are
described by different requests; both commit offsets in the same way.
"""

import struct
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from kafka.coordinator.consumer import ConsumerProtocolAssignment
from kafka.protocol.admin import DescribeGroupsRequest

from ringfence.fencing.kafka.client_pool import ClientPool
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.coordinator_retries import await_coordinator
from ringfence.fencing.kafka.group_messages import ConsumerGroupDescribeRequest
from ringfence.fencing.kafka.group_requests import GroupAdmin
from ringfence.fencing.kafka.hanging_transactions import HangingProber

Where = tuple[str, int]
"""Topic and partition."""

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
"""The protocols of groups (KIP-848)."""

_NO_COORDINATION: Final = ""  # the protocol type of a group that has only committed offsets


@dataclass(frozen=True, slots=True)
class ListedGroup:
    """A group in a listing. state: in Kafka's words. protocol: CLASSIC or CONSUMER."""

    name: str
    state: str
    protocol: str


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    """A member as the group's coordinator knows it; a dead one is listed until its session expires."""

    member_id: str
    client_id: str
    host: str
    partitions: Sequence[Where]


class ConsumerGroupAdmin(GroupAdmin, HangingProber):
    """An admin with one principal. It needs Describe on groups and topics, and Read on topics for open transactions."""

    too_old = "the brokers are too old"
    permissions = "Describe on groups"

    def groups(self) -> list[ListedGroup]:
        """Return the consumer groups that this principal may describe, by name; no share, streams or Connect groups."""
        rows = self._ask(self._admin.ask_groups(), "Listing consumer groups")
        groups = []
        for row in rows:
            protocol = str(row.get("group_type") or CLASSIC).casefold()
            if protocol in (CLASSIC, CONSUMER) and row["protocol_type"] in (CONSUMER, _NO_COORDINATION):
                groups.append(ListedGroup(str(row["group_id"]), str(row.get("group_state") or ""), protocol))
        return sorted(groups, key=lambda each: each.name)

    @await_coordinator
    def members(self, groups: Collection[ListedGroup]) -> dict[str, list[ConsumerMember]]:
        """Return the members of each of these groups; none for a deleted group."""
        members: dict[str, list[ConsumerMember]] = {each.name: [] for each in groups}
        for protocol, request, member in ((CLASSIC, _classic_request, _classic_member), (CONSUMER, _request, _member)):
            if names := [each.name for each in groups if each.protocol == protocol]:
                for group in self._describe(names, request, "Describing consumer groups"):
                    members[group.group_id] = [member(each) for each in group.members]
        return members

    @await_coordinator
    def committed_offsets(self, names: Collection[str]) -> dict[str, dict[Where, int]]:
        """Return the offsets that each group has committed, without those that an open transaction may still commit."""
        if not names:
            return {}
        doing = "Asking for the offsets of consumer groups"
        group_offsets = self._ask(self._admin.ask_group_offsets(dict.fromkeys(names)), doing)
        return {
            name: {(at.topic, at.partition): int(each.offset) for at, each in offsets.items() if each.offset >= 0}
            for name, offsets in group_offsets.items()
        }


_clients = ClientPool(ConsumerGroupAdmin)


@contextmanager
def consumer_group_admin(connection: Connection) -> Iterator[ConsumerGroupAdmin]:
    """Lease a client, which is kept for the next request. Raises `FencingError`."""
    with _clients.lease(connection) as client:
        yield client


def _classic_request(names: list[str]) -> DescribeGroupsRequest:
    return DescribeGroupsRequest(groups=names, include_authorized_operations=False)


def _request(names: list[str]) -> ConsumerGroupDescribeRequest:
    return ConsumerGroupDescribeRequest(group_ids=names, include_authorized_operations=False)


def _classic_member(each: Any) -> ConsumerMember:
    try:
        topics = ConsumerProtocolAssignment.decode(each.member_assignment).assigned_partitions
    except struct.error:  # none yet, or not in the format of consumers
        topics = []
    places = sorted((topic.topic, number) for topic in topics for number in topic.partitions)
    return ConsumerMember(each.member_id, each.client_id, each.client_host.lstrip("/"), places)


def _member(each: Any) -> ConsumerMember:
    places = [(topic.topic_name, number) for topic in each.assignment.topic_partitions for number in topic.partitions]
    return ConsumerMember(each.member_id, each.client_id, each.client_host.lstrip("/"), sorted(places))
