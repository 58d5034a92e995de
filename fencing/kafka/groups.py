"""Who is a member of a consumer group.

Asked through kafka-python: librdkafka's DescribeConsumerGroups ends the whole process when a connection breaks at the
wrong moment ("Assertion `eonce->refcnt > 0' failed", librdkafka issue 4605; measured with confluent-kafka 2.16: both
workers were gone after each restart of the broker).
"""

from dataclasses import dataclass
from typing import Any

from kafka.errors import GroupAuthorizationFailedError, GroupIdNotFoundError, KafkaError

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Fatal, Retriable
from ringfence.fencing.kafka.client_pool import ClientPool
from ringfence.fencing.kafka.python_client import PythonClient
from ringfence.fencing.kafka.settings import Connection

_REQUEST_MS = 5_000
_LEAST_MS = 500


def _client(connection: Connection, patience_ms: int = _REQUEST_MS) -> PythonClient:
    return PythonClient(**connection.kafka_python(), request_timeout_ms=_REQUEST_MS, bootstrap_timeout_ms=patience_ms)


_clients = ClientPool(_client)


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A live member of a consumer group. `topics`: what it is assigned."""

    client_id: str
    member_id: str
    topics: frozenset[str]


def group_members(connection: Connection, group: str, deadline: Deadline) -> list[GroupMember]:
    """The group's members as its coordinator sees them; one that died is listed until its session runs out.

    Raises `Retriable` where no broker answers in time, and `Fatal` where it may not be asked.
    """
    doing = f"describing group {group}"
    patience = max(_LEAST_MS, min(_REQUEST_MS, int(deadline.remaining * 1000)))
    try:
        with _clients.lease(connection, lambda connection: _client(connection, patience)) as client:
            found: dict[str, Any] = client.describe_groups([group])[group]
    except GroupAuthorizationFailedError as error:
        raise Fatal(f"{doing}: {error}. Grant DESCRIBE on the group, then restart", type(error).__name__) from error
    except KafkaError as error:
        raise Retriable(f"{doing}: {error}", type(error).__name__) from error
    trouble = found["error"]
    if trouble is not None and GroupIdNotFoundError.__name__ not in trouble:
        if GroupAuthorizationFailedError.__name__ in trouble:
            raise Fatal(f"{doing}: {trouble}. Grant DESCRIBE on the group, then restart")
        raise Retriable(f"{doing}: {trouble}")
    return [_member(entry) for entry in found["members"]]


def _member(entry: dict[str, Any]) -> GroupMember:
    assigned = entry["member_assignment"]
    partitions = assigned["assigned_partitions"] if isinstance(assigned, dict) else []  # bytes: none yet
    return GroupMember(entry["client_id"], entry["member_id"], frozenset(one["topic"] for one in partitions))
