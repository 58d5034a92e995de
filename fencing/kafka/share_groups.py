"""Share groups (KIP-932): a member, for which the broker locks records, and which acknowledges them; descriptions and
changes of the groups of a cluster; and what a principal may do with one.

confluent-kafka's share consumer is a preview. Neither its deliveries nor the broker's responses to acknowledgements
decide which records are processed: only the ledger does (`ringfence.fencing.share`). Descriptions are for display; no
decision about a record depends on them either.

As in `fencing.kafka.permission_probes`, permissions are found without side effects, with requests that the broker
refuses for another reason after it has checked them. Settings are only validated by the broker.
"""

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from confluent_kafka import AcknowledgeType, KafkaError, KafkaException, ShareConsumer
from confluent_kafka import Message as Message
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from confluent_kafka.cimpl import IllegalStateException
from kafka.errors import for_code
from kafka.protocol.admin import DeleteGroupsRequest, DescribeConfigsRequest, IncrementalAlterConfigsRequest
from kafka.protocol.consumer import HeartbeatRequest
from kafka.protocol.metadata import FindCoordinatorRequest

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Fatal, Retriable
from ringfence.fencing.kafka.client_pool import ClientPool
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.consumer_groups import NOT_THERE, GroupAdmin
from ringfence.fencing.kafka.error_translation import kafka_errors, translate
from ringfence.fencing.kafka.group_messages import (
    AlterShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequest,
    ShareGroupDescribeRequest,
)
from ringfence.fencing.kafka.permission_probes import Permission, await_coordinator
from ringfence.fencing.kafka.topic_offsets import offsets_since

log = logging.getLogger(__name__)

_REFUSALS: Final = frozenset({KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED})
_CLOSE_MS: Final = 5000
# Too long between two polls: the member joins again by itself. A missing topic may still be created.
_PASSES: Final = frozenset({KafkaError._MAX_POLL_EXCEEDED, KafkaError.UNKNOWN_TOPIC_OR_PART})


class Answer(Enum):
    """What happens to a locked record: it is done, it is delivered again, or it is never delivered again."""

    ACCEPT = AcknowledgeType.ACCEPT
    RELEASE = AcknowledgeType.RELEASE
    REJECT = AcknowledgeType.REJECT


class ShareMember:
    """One member, on one thread. Answer every record of a poll before the next poll, which sends the answers."""

    def __init__(self, connection: Connection, group: str, topics: Sequence[str], client_id: str, limit: int) -> None:
        """limit: about how many records a poll returns; the broker locks whole batches."""
        self._doing = f"reading as a member of share group {group}"
        self.broken = False
        """The client no longer knows what it has delivered: join again."""
        settings = connection.librdkafka(
            group_id=group,
            share_acknowledgement_mode="explicit",
            max_poll_records=limit,
            socket_timeout_ms=_CLOSE_MS,
        )
        settings["client.id"] = client_id
        with kafka_errors(f"joining share group {group}"):
            self._consumer = connection.create(lambda: ShareConsumer(settings))
            self._consumer.subscribe(list(topics))

    def poll(self, seconds: float) -> list[Message]:
        """Return locked records, none of them an error; [] after `seconds` without any. Raises `Retriable`, `Fatal`."""
        try:
            with kafka_errors(self._doing):
                messages = list(self._consumer.poll(seconds))
        except IllegalStateException as lost:
            self.broken = True
            raise Retriable(f"{self._doing}: {lost}. The task joins the group again") from lost
        records = []
        for message in messages:
            if (error := message.error()) is None:
                records.append(message)
                continue
            trouble = translate(error, self._doing)
            if not isinstance(trouble, Retriable) and error.code() not in _PASSES:
                for one in records:
                    self.answer(one, Answer.RELEASE)
                raise trouble
            log.info("%s", trouble)  # the client recovers by itself
        return records

    def answer(self, message: Message, answer: Answer) -> None:
        """Set the answer that the next poll sends. If the lock is lost, it has no effect: others have the record."""
        try:
            self._consumer.acknowledge(message, answer.value)
        except (KafkaException, IllegalStateException) as error:
            log.debug("%s", error)

    def send_answers(self, seconds: float) -> None:
        """Send the answers now, if there is no poll soon."""
        try:
            refusals = {one: error for one, error in self._consumer.commit_sync(seconds).items() if error is not None}
        except KafkaException as error:
            log.info("%s: the answers did not reach the broker: %s", self._doing, error.args[0].str())
        else:
            if refusals:
                log.debug("%s: refused answers: %s", self._doing, refusals)

    def close(self) -> None:
        """Leave the group."""
        try:
            self._consumer.close()
        except (KafkaException, IllegalStateException) as error:
            log.info("%s: leaving: %s", self._doing, error)


def alter_share_group(
    connection: Connection, group: str, settings: Mapping[str, str | None], deadline: Deadline
) -> None:
    """Set a share group's settings, given without their prefix `share.`; None restores the broker's default.

    Raises `Fatal`, `Retriable`.
    """
    entries = [
        ConfigEntry(
            f"share.{name}",
            value,
            incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
        )
        for name, value in settings.items()
    ]
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=entries)
    doing = f"setting up share group {group}"
    client = AdminClient(connection.librdkafka())  # type: ignore[arg-type]
    answers = client.incremental_alter_configs([resource], request_timeout=max(0.5, deadline.slice(10.0)))
    for future in answers.values():
        try:
            future.result()
        except KafkaException as error:
            reason = error.args[0]
            if reason.code() in _REFUSALS:
                raise Fatal(
                    f"{doing}: {reason.str()}. Grant the principal AlterConfigs and Read on the group", reason.name()
                ) from error
            if reason.code() == KafkaError.INVALID_CONFIG or reason.code() == KafkaError.INVALID_REQUEST:
                raise Fatal(
                    f"{doing}: {reason.str()}. Correct the connector's share.* settings, or the broker's "
                    "limits (group.share.min.*, group.share.max.*)",
                    reason.name(),
                ) from error
            raise translate(reason, doing) from error


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
