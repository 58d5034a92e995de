"""The consumer groups of a cluster: who is in them, and which offsets they have committed. Changes nothing.

Asked through kafka-python, as `groups.py` says. Groups of the classic protocol and of KIP-848's are described by
different requests; both commit offsets alike.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from kafka.errors import IncompatibleBrokerVersion, KafkaError, for_code

from ringfence.fencing.errors import Fatal, Retriable
from ringfence.fencing.kafka.client_pool import ClientPool
from ringfence.fencing.kafka.group_messages import ConsumerGroupDescribeRequest
from ringfence.fencing.kafka.hanging import HangingProber
from ringfence.fencing.kafka.settings import Connection

Where = tuple[str, int]
"""Topic and partition."""

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
"""The protocols of groups (KIP-848)."""

_NO_COORDINATION: Final = ""  # the protocol type of a group that has only committed offsets
_NOT_THERE: Final = frozenset({16, 69})  # of the coordinator, after the group was deleted or moved
_GROUP_DENIED: Final = 30


@dataclass(frozen=True, slots=True)
class ListedGroup:
    """state: Kafka's word. protocol: CLASSIC or CONSUMER."""

    name: str
    state: str
    protocol: str


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    """A member as the group's coordinator knows it; one that died is listed until its session runs out."""

    member_id: str
    client_id: str
    host: str
    assigned: Sequence[Where]


class ConsumerGroupAdmin(HangingProber):
    """Asks with one principal, which needs Describe on groups and topics, and Read on topics for open transactions."""

    def groups(self) -> list[ListedGroup]:
        """Those of consumers that this principal may describe, by name; no share, streams or Connect groups."""
        rows = self._ask(self._admin._async_list_groups(), "Listing consumer groups")
        found = []
        for row in rows:
            protocol = str(row.get("group_type") or CLASSIC).casefold()
            if protocol in (CLASSIC, CONSUMER) and row["protocol_type"] in (CONSUMER, _NO_COORDINATION):
                found.append(ListedGroup(str(row["group_id"]), str(row.get("group_state") or ""), protocol))
        return sorted(found, key=lambda each: each.name)

    def members(self, groups: Collection[ListedGroup]) -> dict[str, list[ConsumerMember]]:
        """The members of each of these groups; none of one that is gone."""
        found: dict[str, list[ConsumerMember]] = {each.name: [] for each in groups}
        doing = "Describing consumer groups"
        if classic := [each.name for each in groups if each.protocol == CLASSIC]:
            for name, told in self._ask(self._admin._async_describe_groups(classic), doing).items():
                found[name] = [_classic_member(each) for each in told["members"]]
        newer = [each.name for each in groups if each.protocol == CONSUMER]
        if not newer:
            return found
        asked: dict[int, list[str]] = {}
        for name, node in self._ask(self._admin._find_coordinator_ids(newer), doing).items():
            asked.setdefault(node, []).append(name)
        requests = {
            str(node): ConsumerGroupDescribeRequest(group_ids=some, include_authorized_operations=False)
            for node, some in asked.items()
        }
        answers = self._ask(self._all(requests, {str(node): node for node in asked}), doing)
        for answer in answers.values():
            for group in answer.groups if answer is not None else ():
                if group.error_code not in _NOT_THERE:
                    self._check(group.error_code, doing)
                    found[group.group_id] = [_member(each) for each in group.members]
        return found

    def committed_offsets(self, names: Collection[str]) -> dict[str, dict[Where, int]]:
        """What each group has committed. An offset that an open transaction is about to commit is not in it."""
        if not names:
            return {}
        doing = "Asking for the offsets of consumer groups"
        found = self._ask(self._admin._async_list_group_offsets(dict.fromkeys(names)), doing)
        return {
            name: {(at.topic, at.partition): int(each.offset) for at, each in offsets.items() if each.offset >= 0}
            for name, offsets in found.items()
        }

    def _ask(self, work: Any, doing: str) -> Any:
        async def call() -> Any:
            return await work

        try:
            return self._admin._manager.run(call)
        except IncompatibleBrokerVersion as error:
            raise Fatal(f"{doing}: the brokers are too old") from error
        except KafkaError as error:
            self._check(int(getattr(error, "errno", None) or 0), doing)
            raise self._trouble(error) from error

    def _check(self, code: int, doing: str) -> None:
        if code <= 0:
            return
        error = for_code(code)
        if code == _GROUP_DENIED:
            raise Fatal(f"{doing}: {error.__name__}. Grant the worker's principal Describe on groups", error.__name__)
        if getattr(error, "retriable", False):
            raise Retriable(f"{doing}: {error.__name__}. Ask again", error.__name__)
        raise Fatal(f"{doing}: {error.__name__}", error.__name__)


_clients = ClientPool(ConsumerGroupAdmin)


@contextmanager
def consumer_group_admin(connection: Connection) -> Iterator[ConsumerGroupAdmin]:
    """A client that is kept for the next question. Raises `FencingError`."""
    with _clients.lease(connection) as client:
        yield client


def _classic_member(told: Mapping[str, Any]) -> ConsumerMember:
    assigned = told["member_assignment"]
    parts = assigned["assigned_partitions"] if isinstance(assigned, dict) else []  # bytes: none yet
    places = sorted((each["topic"], number) for each in parts for number in each["partitions"])
    return ConsumerMember(told["member_id"], told["client_id"], told["client_host"].lstrip("/"), places)


def _member(each: Any) -> ConsumerMember:
    places = [(topic.topic_name, number) for topic in each.assignment.topic_partitions for number in topic.partitions]
    return ConsumerMember(each.member_id, each.client_id, each.client_host.lstrip("/"), sorted(places))
