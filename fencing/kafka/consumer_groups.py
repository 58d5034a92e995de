"""Reads the consumer groups of a cluster: their members, and the offsets that they have committed; removes members.
`GroupAdmin` is the common part of requests about groups of any kind.

Groups of the classic protocol and of KIP-848's are described by different requests; both commit offsets in the same
way.

It uses kafka-python: librdkafka's DescribeConsumerGroups aborts the process if a connection breaks at the wrong moment
("Assertion `eonce->refcnt > 0' failed", librdkafka issue 4605; measured with confluent-kafka 2.16: both workers died
after each restart of the broker).
"""

import struct
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from kafka.coordinator.consumer import ConsumerProtocolAssignment
from kafka.errors import (
    GroupAuthorizationFailedError,
    GroupIdNotFoundError,
    IncompatibleBrokerVersion,
    KafkaError,
    for_code,
)
from kafka.protocol.admin import DescribeGroupsRequest
from kafka.protocol.consumer import LeaveGroupRequest

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Conflict, Fatal, FencingError, Retriable
from ringfence.fencing.kafka.client_pool import ClientPool
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.group_messages import ConsumerGroupDescribeRequest
from ringfence.fencing.kafka.kafka_python_client import PythonClient
from ringfence.fencing.kafka.open_transactions import HangingProber
from ringfence.fencing.kafka.permission_probes import MOVING, NoCoordinator, Prober, await_coordinator

NOT_THERE: Final = 69
"""Kafka's code: its coordinator knows no such group (GROUP_ID_NOT_FOUND)."""

_INHABITED: Final = 68
_DENIED: Final = 30
_CONCURRENT: Final = 51


class NotThere(FencingError):
    """There is no group with that name and of that kind."""


class GroupAdmin(Prober):
    """An admin with one principal. A "not the coordinator" response raises `NoCoordinator`, for `await_coordinator`."""

    too_old: ClassVar[str]
    """The reason for messages, if the brokers do not support a request."""

    permissions: ClassVar[str]
    """The permissions that the principal needs on a group."""

    def _coordinators(self, names: Collection[str], doing: str) -> dict[str, int]:
        """Return the node of each group's coordinator."""
        nodes: dict[str, int] = self._ask(self._admin.ask_coordinators(sorted(names)), doing)
        return nodes

    def _describe(self, names: Collection[str], request: Callable[[list[str]], Any], doing: str) -> Iterator[Any]:
        """Return the coordinators' descriptions of the groups that exist, with one request for each."""
        by_node: dict[int, list[str]] = {}
        for name, node in self._coordinators(names, doing).items():
            by_node.setdefault(node, []).append(name)
        requests = {str(node): request(sorted(some)) for node, some in by_node.items()}
        answers = self._send(requests, {str(node): node for node in by_node}, doing)
        for group in (group for answer in answers.values() for group in answer.groups):
            if group.error_code != NOT_THERE:
                self._check(group.error_code, group.error_message, f"{doing}, {group.group_id}")
                yield group

    def _send(self, requests: Mapping[str, Any], nodes: Mapping[str, int], doing: str) -> dict[str, Any]:
        """Send the requests, and return the responses by the requests' keys."""
        answers: dict[str, Any] = self._ask(self._all(requests, nodes), doing)
        if any(answer is None for answer in answers.values()):
            raise Fatal(f"{doing}: {self.too_old}")
        return answers

    def _ask(self, work: Any, doing: str) -> Any:
        async def call() -> Any:
            return await work

        try:
            return self._admin.run(call)
        except IncompatibleBrokerVersion as error:
            raise Fatal(f"{doing}: {self.too_old}") from error
        except KafkaError as error:
            code = int(getattr(error, "errno", None) or 0)
            if code > 0:
                self._check(code, None, doing)
            raise self._trouble(error) from error

    def _check(self, code: int, message: str | None, doing: str) -> None:
        if code == 0:
            return
        error = for_code(code)
        text = f"{doing}: {message or error.__name__}"
        if code == NOT_THERE:
            raise NotThere(text, error.__name__)
        if code == _INHABITED:
            raise Conflict(text, error.__name__)
        if code == _DENIED:
            raise Fatal(f"{text}. Grant the worker's principal {self.permissions}", error.__name__)
        if code in MOVING:
            self._admin.forget_coordinators()
            raise NoCoordinator(f"{text}. Ask again", error.__name__)
        if code == _CONCURRENT or getattr(error, "retriable", False):
            raise Retriable(f"{text}. Ask again", error.__name__)
        raise Fatal(text, error.__name__)


_REQUEST_MS = 5_000
_LEAST_MS = 500
_SEVERAL, _NO_MEMBER = 3, 25
"""The version of LeaveGroup that names members (Kafka 2.4), and the code for one that is not there."""


def _client(connection: Connection, patience_ms: int = _REQUEST_MS) -> PythonClient:
    return PythonClient(**connection.kafka_python(), request_timeout_ms=_REQUEST_MS, bootstrap_timeout_ms=patience_ms)


_member_clients = ClientPool(_client)


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A live member of a consumer group. topics: those of its assignment."""

    client_id: str
    member_id: str
    topics: frozenset[str]


def group_members(connection: Connection, group: str, deadline: Deadline) -> list[GroupMember]:
    """Return the group's members as its coordinator knows them; a dead one is listed until its session expires.

    Raises `Retriable` if no broker responds in time, and `Fatal` without the permission.
    """
    doing, remedy = f"describing group {group}", "Grant DESCRIBE on the group, then restart"
    with _lease(connection, deadline, doing, remedy) as client:
        description: dict[str, Any] = client.describe_groups([group])[group]
        trouble = description["error"]
        if trouble is not None and GroupIdNotFoundError.__name__ not in trouble:
            # Raised within the lease, which closes the client: it would ask the same broker again forever after its
            # group has moved to another coordinator.
            if GroupAuthorizationFailedError.__name__ in trouble:
                raise Fatal(f"{doing}: {trouble}. {remedy}")
            raise Retriable(f"{doing}: {trouble}")
    return [_group_member(entry) for entry in description["members"]]


def remove_members(
    connection: Connection, group: str, member_ids: Collection[str], reason: str, deadline: Deadline
) -> None:
    """Have these members leave the group. Those that have left already are no error.

    Raises `Retriable` if no broker responds in time, and `Fatal` without the permission.
    """
    members = [
        LeaveGroupRequest.MemberIdentity(member_id=each, group_instance_id=None, reason=reason[:255])
        for each in member_ids
    ]
    request = LeaveGroupRequest(group_id=group, members=members, min_version=_SEVERAL)
    with _lease(connection, deadline, f"removing members of group {group}", "Grant READ on the group") as client:

        async def leave() -> Any:
            nodes = await client.ask_coordinators([group])
            return await client.send(request, node_id=nodes[group])

        answer = client.run(leave)
        for code in (answer.error_code, *(each.error_code for each in answer.members)):
            if code not in (0, _NO_MEMBER):
                client.forget_coordinators()
                raise for_code(code)


@contextmanager
def _lease(connection: Connection, deadline: Deadline, doing: str, remedy: str) -> Iterator[PythonClient]:
    """Yield a client, and translate its errors. remedy: what helps without the permission."""
    patience = max(_LEAST_MS, min(_REQUEST_MS, int(deadline.remaining * 1000)))
    try:
        with _member_clients.lease(connection, lambda connection: _client(connection, patience)) as client:
            yield client
    except GroupAuthorizationFailedError as error:
        raise Fatal(f"{doing}: {error}. {remedy}", type(error).__name__) from error
    except KafkaError as error:
        raise Retriable(f"{doing}: {error}", type(error).__name__) from error


def _group_member(entry: dict[str, Any]) -> GroupMember:
    assignment = entry["member_assignment"]
    partitions = assignment["assigned_partitions"] if isinstance(assignment, dict) else []  # bytes: none yet
    return GroupMember(entry["client_id"], entry["member_id"], frozenset(one["topic"] for one in partitions))


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
