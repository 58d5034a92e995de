"""Reads the members of a consumer group, and removes some.

It uses kafka-python: librdkafka's DescribeConsumerGroups aborts the process if a connection breaks at the wrong moment
("Assertion `eonce->refcnt > 0' failed", librdkafka issue 4605; measured with confluent-kafka 2.16: both workers died
after each restart of the broker).
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from kafka.errors import GroupAuthorizationFailedError, GroupIdNotFoundError, KafkaError, for_code
from kafka.protocol.consumer import LeaveGroupRequest

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Fatal, Retriable
from ringfence.fencing.kafka.client_pool import ClientPool
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.kafka_python_client import PythonClient

_REQUEST_MS = 5_000
_LEAST_MS = 500
_SEVERAL, _NO_MEMBER = 3, 25
"""The version of LeaveGroup that names members (Kafka 2.4), and the code for one that is not there."""


def _client(connection: Connection, patience_ms: int = _REQUEST_MS) -> PythonClient:
    return PythonClient(**connection.kafka_python(), request_timeout_ms=_REQUEST_MS, bootstrap_timeout_ms=patience_ms)


_clients = ClientPool(_client)


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
        if GroupAuthorizationFailedError.__name__ in trouble:
            raise Fatal(f"{doing}: {trouble}. {remedy}")
        raise Retriable(f"{doing}: {trouble}")
    return [_member(entry) for entry in description["members"]]


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
        with _clients.lease(connection, lambda connection: _client(connection, patience)) as client:
            yield client
    except GroupAuthorizationFailedError as error:
        raise Fatal(f"{doing}: {error}. {remedy}", type(error).__name__) from error
    except KafkaError as error:
        raise Retriable(f"{doing}: {error}", type(error).__name__) from error


def _member(entry: dict[str, Any]) -> GroupMember:
    assignment = entry["member_assignment"]
    partitions = assignment["assigned_partitions"] if isinstance(assignment, dict) else []  # bytes: none yet
    return GroupMember(entry["client_id"], entry["member_id"], frozenset(one["topic"] for one in partitions))
