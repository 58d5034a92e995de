"""Describes and changes the share groups of a cluster (KIP-932): their members, and where they start.

These descriptions are for display. No decision about a record depends on them (`ringfence.fencing.share`).

Probes a share group without side effects: permissions, the type of the group, and whether settings are allowed.

As in `fencing.kafka.permission_probes`, permissions are found with requests that the broker refuses for another reason
after it has checked them. Settings are only validated by the broker.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from kafka.errors import for_code
from kafka.protocol.admin import DeleteGroupsRequest, DescribeConfigsRequest, IncrementalAlterConfigsRequest
from kafka.protocol.consumer import HeartbeatRequest
from kafka.protocol.metadata import FindCoordinatorRequest

from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.client_pool import ClientPool
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.group_messages import (
    AlterShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequest,
    ShareGroupDescribeRequest,
)
from ringfence.fencing.kafka.group_requests import NOT_THERE, GroupAdmin
from ringfence.fencing.kafka.permission_probes import Permission, await_coordinator
from ringfence.fencing.kafka.topic_offsets import offsets_since

PREFIX: Final = "share."
"""The prefix of a share group's settings."""

_GROUP: Final = 32  # the resource type of a group's settings
_COORDINATORS: Final = "Asking for the coordinators of share groups"


@dataclass(frozen=True, slots=True)
class ShareGroupMember:
    """A member. partitions: the (topic, partition) that the group's coordinator lets it read."""

    member_id: str
    client_id: str
    host: str
    epoch: int
    topics: Sequence[str]
    partitions: Sequence[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class ShareGroup:
    """A share group. state: as in Kafka (Empty, Stable, Dead); epoch: counts the changes of its members and topics."""

    name: str
    state: str
    epoch: int
    members: Sequence[ShareGroupMember]


@dataclass(frozen=True, slots=True)
class ShareStart:
    """Where a group starts in a partition (SPSO); -1 if it has not started. lag: as the broker counts it, -1 if
    unknown; problem: why the broker did not report it.
    """

    topic: str
    topic_id: str
    partition: int
    offset: int
    lag: int = -1
    problem: str = ""


@dataclass(frozen=True, slots=True)
class GroupSetting:
    """A share group's setting. own: whether it was set for this group."""

    name: str
    value: str
    own: bool


class ShareGroupAdmin(GroupAdmin):
    """An admin with one principal, which needs Describe on the groups, and Read or Delete to change them."""

    too_old = "The brokers know no share groups: that takes Kafka 4.2 or newer, with share.version=1"
    permissions = "Read, Describe and Delete on the group"

    def names(self) -> dict[str, str]:
        """Return the state of every share group that this principal may describe, by name."""
        rows = self._ask(self._admin.ask_groups(types_filter=["share"]), "Listing share groups")
        return {str(row["group_id"]): str(row["group_state"]) for row in rows}

    @await_coordinator
    def describe(self, names: Collection[str]) -> dict[str, ShareGroup]:
        """Describe those groups that exist. It takes one request for each coordinator."""
        if not names:
            return {}
        groups = {}
        for group in self._describe(names, _describe_request, "Describing share groups"):
            members = [_member(each) for each in group.members]
            groups[group.group_id] = ShareGroup(group.group_id, group.group_state, group.group_epoch, members)
        return groups

    @await_coordinator
    def starts(self, names: Collection[str]) -> dict[str, list[ShareStart]]:
        """Return where each group starts, and its lag.

        It takes one request per group: with seven or more groups in a request, a 4.3 broker takes two seconds or longer
        (measured).
        """
        if not names:
            return {}
        nodes = self._coordinators(names, _COORDINATORS)
        part = DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup
        requests = {name: DescribeShareGroupOffsetsRequest(groups=[part(group_id=name, topics=None)]) for name in names}
        answers = self._send(requests, nodes, "Describing the offsets of share groups")
        starts: dict[str, list[ShareStart]] = {}
        for name, answer in answers.items():
            (group,) = answer.groups
            if group.error_code == NOT_THERE:
                continue
            self._check(group.error_code, group.error_message, f"Describing the offsets of share group {name}")
            starts[name] = [
                _start(topic.topic_name, str(topic.topic_id), each)
                for topic in group.topics
                for each in topic.partitions
            ]
        return starts

    @await_coordinator
    def alter(self, name: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """Set the start offsets. Raises `Conflict` if the group has members."""
        topic_of = AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestTopic
        partition_of = topic_of.AlterShareGroupOffsetsRequestPartition
        topics: dict[str, list[Any]] = {}
        for (topic, partition), offset in offsets.items():
            topics.setdefault(topic, []).append(partition_of(partition_index=partition, start_offset=offset))
        request = AlterShareGroupOffsetsRequest(
            group_id=name, topics=[topic_of(topic_name=topic, partitions=some) for topic, some in topics.items()]
        )
        doing = f"Altering the offsets of share group {name}"
        answer = self._send_one(name, request, doing)
        self._check(answer.error_code, answer.error_message, doing)
        for topic in answer.responses:
            for each in topic.partitions:
                self._check(
                    each.error_code, each.error_message, f"{doing} in {topic.topic_name}-{each.partition_index}"
                )

    @await_coordinator
    def delete_offsets(self, name: str, topics: Collection[str]) -> None:
        """Delete the group's offsets in these topics. Raises `Conflict` if the group has members."""
        topic_of = DeleteShareGroupOffsetsRequest.DeleteShareGroupOffsetsRequestTopic
        request = DeleteShareGroupOffsetsRequest(
            group_id=name, topics=[topic_of(topic_name=topic) for topic in sorted(topics)]
        )
        doing = f"Deleting the offsets of share group {name}"
        answer = self._send_one(name, request, doing)
        self._check(answer.error_code, answer.error_message, doing)
        for topic in answer.responses:
            self._check(topic.error_code, topic.error_message, f"{doing} in topic {topic.topic_name}")

    @await_coordinator
    def delete(self, name: str) -> None:
        """Delete the group. Raises `Conflict` if it has members."""
        doing = f"Deleting share group {name}"
        answer = self._send_one(name, DeleteGroupsRequest(groups_names=[name]), doing)
        for result in answer.results:
            self._check(result.error_code, None, doing)

    @await_coordinator
    def settings(self, name: str) -> list[GroupSetting]:
        """Return the group's share settings, with the broker's value for those that it does not set."""
        resource = DescribeConfigsRequest.DescribeConfigsResource(
            resource_type=_GROUP, resource_name=name, configuration_keys=None
        )
        doing = f"Describing the settings of share group {name}"
        answer = self._send_one(name, DescribeConfigsRequest(resources=[resource], min_version=1), doing)
        settings = []
        for result in answer.results:
            self._check(result.error_code, result.error_message, doing)
            for each in result.configs:
                if each.name.startswith(PREFIX):
                    settings.append(GroupSetting(each.name, str(each.value or ""), each.config_source == _OWN_SETTING))
        return sorted(settings, key=lambda each: each.name)

    def _send_one(self, name: str, request: Any, doing: str) -> Any:
        return self._send({name: request}, self._coordinators([name], _COORDINATORS), doing)[name]


_OWN_SETTING: Final = 8  # of a group, among the sources of a setting

_clients = ClientPool(ShareGroupAdmin)


@contextmanager
def share_group_admin(connection: Connection) -> Iterator[ShareGroupAdmin]:
    """Yield a client, which is kept for the next use. Raises `FencingError`."""
    with _clients.lease(connection) as client:
        yield client


def _describe_request(names: list[str]) -> ShareGroupDescribeRequest:
    return ShareGroupDescribeRequest(group_ids=names, include_authorized_operations=False)


def _member(each: Any) -> ShareGroupMember:
    partitions = [
        (topic.topic_name, number) for topic in each.assignment.topic_partitions for number in topic.partitions
    ]
    host = each.client_host.lstrip("/")
    return ShareGroupMember(
        each.member_id, each.client_id, host, each.member_epoch, sorted(each.subscribed_topic_names), sorted(partitions)
    )


def _start(topic: str, topic_id: str, each: Any) -> ShareStart:
    problem = "" if each.error_code == 0 else str(each.error_message or for_code(each.error_code).__name__)
    return ShareStart(topic, topic_id, each.partition_index, each.start_offset, each.lag, problem)


FEATURE: Final = "share.version"

# the resource type of a group's settings
_SET: Final = 0
_DENIED: Final = frozenset({30, 31})
_NOBODY: Final = "nobody"
# The coordinator is away; there is no such member, generation or group, or it is one of another kind.
_CHECKED: Final = frozenset({0, 14, 15, 16, 22, 25, 27, 69})


class ShareProber(ShareGroupAdmin):
    """A prober with one principal, like `Prober`."""

    def describe_group(self, name: str) -> Permission:
        """Return the permission Describe on a group, which need not exist."""
        request = FindCoordinatorRequest(key=name, key_type=0, max_version=3, min_version=1)
        return _judge(self._run(self._all({name: request}))[name])

    def read_group(self, name: str) -> Permission:
        """Return the permission Read on a group, which need not exist. It sends a heartbeat of an unknown member."""
        request = HeartbeatRequest(group_id=name, generation_id=0, member_id=_NOBODY, max_version=3)
        return _judge(self._run(self._all({name: request}))[name])

    def alter_group(self, name: str, settings: Mapping[str, str]) -> tuple[Permission, str]:
        """Return the permission to set these settings, named without `share.`, and the broker's objection to their
        values, "" for none.
        """
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource
        configs = [
            resource.AlterableConfig(name=f"{PREFIX}{key}", config_operation=_SET, value=value)
            for key, value in settings.items()
        ]
        request = IncrementalAlterConfigsRequest(
            resources=[resource(resource_type=_GROUP, resource_name=name, configs=configs)], validate_only=True
        )
        answer = self._run(self._all({name: request}))[name]
        for result in answer.responses if answer else ():
            if result.error_code in _DENIED:
                return Permission.NO, ""
            problem = (
                "" if result.error_code == 0 else str(result.error_message or for_code(result.error_code).__name__)
            )
            return Permission.YES, problem
        return Permission.UNKNOWN, ""

    def kind_of(self, name: str) -> str:
        """Return the type of the group (`share`, `consumer`, `classic`); "" if there is none that may be described."""
        rows = self._ask(self._admin.ask_groups(), "Listing groups")
        return next((str(row["group_type"]).lower() for row in rows if row["group_id"] == name), "")


def find_overdue(
    connection: Connection, waiting: Mapping[tuple[str, int], int], since_ms: int
) -> list[tuple[str, int]]:
    """Return the partitions in which the record at this offset is older than `since_ms`. Raises `FencingError`."""
    partitions = []
    for topic in sorted({topic for topic, _ in waiting}):
        numbers = [number for name, number in waiting if name == topic]
        first = offsets_since(connection, topic, numbers, since_ms, Deadline.after(5))
        partitions += [(topic, one) for one in numbers if first[one] < 0 or waiting[topic, one] < first[one]]
    return partitions


def _judge(answer: Any) -> Permission:
    if answer is None:
        return Permission.UNKNOWN
    if answer.error_code in _DENIED:
        return Permission.NO
    return Permission.YES if answer.error_code in _CHECKED else Permission.UNKNOWN
