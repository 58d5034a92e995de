"""`/api/v1/consumer-groups`: the consumers of the topics that the caller may read, and their lag; for the pages, too.

A group is visible to users who may read one of its topics on the workers' cluster, either by `read-topics` or because a
connector writes to it. They see its partitions and members of such topics. Internal topics are for administrators.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from ringfence import dispatch
from ringfence.access.authorise import somewhere
from ringfence.access.principal import Principal, Verb
from ringfence.api.topic_grant_check import may_look_at
from ringfence.api.topics import ELSEWHERE, find_writers, is_administrator
from ringfence.api.v1.base import V1View
from ringfence.api.v1.request_fields import QueryShape, StringField
from ringfence.engine.questions import DescribeConsumerGroup, ListConsumerGroups
from ringfence.fencing.ids import parse_task_transactional_id
from ringfence.http.errors import not_found
from ringfence.projection.models import Connector


def list_groups(who: Principal, search: str = "", topic: str = "") -> dict[str, Any]:
    """Return `results`, and `left_out`: how many groups were not read. own: the group reads only the platform's topics.
    Raises `Refusal`.
    """
    answer = dispatch.ask(ListConsumerGroups(search, topic))
    may = _readable(who, {each["topic"] for group in answer["groups"] for each in group["topics"]}, answer["internal"])
    rows = []
    for group in answer["groups"]:
        topics = [each for each in group["topics"] if each["topic"] in may]
        if topics or is_administrator(who):
            sums = {key: _total(each[key] for each in topics) for key in ("lag", "lag_to_end")}
            own = bool(group["topics"]) and all(each["topic"] in answer["internal"] for each in group["topics"])
            rows.append(
                {**group, "own": own, "topics": topics, "more_topics": len(topics) < len(group["topics"]), **sums}
            )
    return {"results": rows, "left_out": answer["left_out"]}


def describe_group(who: Principal, name: str) -> dict[str, Any] | None:
    """Return the group; None if the user may not see it. Raises `Refusal`, with 404 if it does not exist."""
    group = dispatch.ask(DescribeConsumerGroup(name))
    may = _readable(who, {each["topic"] for each in group["partitions"]}, group["internal"])
    partitions = [
        {**each, "holder": _name_task(who, each["holder"], group["worker_group"])}
        for each in group["partitions"]
        if each["topic"] in may
    ]
    if not partitions and not is_administrator(who):
        return None
    members = []
    for each in group["members"]:
        assigned = [place for place in each["assigned"] if place["topic"] in may]
        if assigned or not each["assigned"]:
            members.append({**each, "assigned": assigned})
    sums = {key: _total(each[key] for each in partitions) for key in ("lag", "lag_to_end")}
    more = len(partitions) < len(group["partitions"])
    fields = {key: group[key] for key in ("group", "state", "protocol", "left_out", "problem")}
    return {**fields, "members": members, "partitions": partitions, "more_topics": more, **sums}


def _name_task(who: Principal, holder: Mapping[str, Any] | None, worker_group: str) -> Mapping[str, Any] | None:
    """Add the connector and the task that hold the transaction, if the user may see the connector."""
    if holder is None:
        return None
    task = parse_task_transactional_id(worker_group, holder["transactional_id"])
    if task is None or not _may_see(who, task.connector):
        return {**holder, "connector": "", "task": -1}
    return {**holder, "connector": task.connector, "task": task.task}


def _may_see(who: Principal, connector: str) -> bool:
    return who.may(Verb.VIEW, connector) and Connector.objects.filter(name=connector, known=True).exists()


def _readable(who: Principal, topics: Iterable[str], internal: Mapping[str, str]) -> frozenset[str]:
    return frozenset(each for each in topics if _may_read(who, each, each in internal))


def _may_read(who: Principal, topic: str, internal: bool) -> bool:
    if internal:
        return is_administrator(who)
    if who.may_read_topic(topic):
        return True
    here = [row for row in find_writers(topic) if ELSEWHERE not in row.settings]
    return any(who.may(Verb.VIEW_DATA, row.name) and may_look_at(topic, row.name, who) for row in here)


def _total(values: Iterable[int | None]) -> int | None:
    numbers = [each for each in values if each is not None]
    return sum(numbers) if numbers else None


class GroupTopicShape(serializers.Serializer[Any]):
    """`lag`: offsets from the committed ones to the last stable ones; `lag_to_end`: to the ends. Null: unknown."""

    topic = serializers.CharField()
    partitions = serializers.IntegerField()
    lag = serializers.IntegerField(allow_null=True)
    lag_to_end = serializers.IntegerField(allow_null=True)


class ConsumerGroupRowShape(serializers.Serializer[Any]):
    """`protocol`: classic, or consumer (KIP-848). `more_topics`: it reads topics that you may not read."""

    group = serializers.CharField()
    state = serializers.CharField(allow_blank=True)
    protocol = serializers.CharField()
    members = serializers.IntegerField()
    topics = GroupTopicShape(many=True)
    more_topics = serializers.BooleanField()
    lag = serializers.IntegerField(allow_null=True)
    lag_to_end = serializers.IntegerField(allow_null=True)


class ConsumerGroupListShape(serializers.Serializer[Any]):
    """`left_out`: matching groups that were not read; search for part of their name."""

    results = ConsumerGroupRowShape(many=True)
    left_out = serializers.IntegerField()


class GroupPlaceShape(serializers.Serializer[Any]):
    topic = serializers.CharField()
    partition = serializers.IntegerField()


class GroupMemberShape(serializers.Serializer[Any]):
    member = serializers.CharField()
    client = serializers.CharField(allow_blank=True)
    host = serializers.CharField(allow_blank=True)
    assigned = GroupPlaceShape(many=True)


class GroupHolderShape(serializers.Serializer[Any]):
    """The open transaction at the last stable offset. `transactional_id`: empty if unknown. `connector`, `task`: its
    owner, empty and -1 if you may see none.
    """

    transactional_id = serializers.CharField(allow_blank=True)
    producer_id = serializers.IntegerField()
    epoch = serializers.IntegerField()
    first_offset = serializers.IntegerField()
    since_ms = serializers.IntegerField()
    connector = serializers.CharField(allow_blank=True)
    task = serializers.IntegerField()


class GroupPartitionShape(serializers.Serializer[Any]):
    """`committed`: null if the group has committed none; `stable` and `end`: null if the partition no longer exists."""

    topic = serializers.CharField()
    partition = serializers.IntegerField()
    committed = serializers.IntegerField(allow_null=True)
    stable = serializers.IntegerField(allow_null=True)
    end = serializers.IntegerField(allow_null=True)
    lag = serializers.IntegerField(allow_null=True)
    lag_to_end = serializers.IntegerField(allow_null=True)
    member = serializers.CharField(allow_blank=True)
    holder = GroupHolderShape(allow_null=True)


class ConsumerGroupShape(serializers.Serializer[Any]):
    """`problem`: why the open transactions are unknown. `left_out`: partitions beyond the first 2,000."""

    group = serializers.CharField()
    state = serializers.CharField(allow_blank=True)
    protocol = serializers.CharField()
    members = GroupMemberShape(many=True)
    partitions = GroupPartitionShape(many=True)
    more_topics = serializers.BooleanField()
    lag = serializers.IntegerField(allow_null=True)
    lag_to_end = serializers.IntegerField(allow_null=True)
    left_out = serializers.IntegerField()
    problem = serializers.CharField(allow_blank=True)


class ConsumerGroupsQueryShape(QueryShape):
    search = StringField(default="", allow_blank=True, trim_whitespace=False)
    topic = StringField(default="", allow_blank=True, trim_whitespace=False)


class ConsumerGroups(V1View):
    """The groups that read a topic that you may read, queried from Kafka now."""

    access = {"GET": somewhere(Verb.VIEW)}
    shape = ConsumerGroupListShape
    queries = {"GET": ConsumerGroupsQueryShape}

    def get(self, request: Request) -> Response:
        query = self.parse_query()
        answer = list_groups(self.principal, query["search"], query["topic"])
        return Response(ConsumerGroupListShape(answer).data)


class ConsumerGroup(V1View):
    """Members, and for each partition the committed offset, both lags and the open transaction that it waits for."""

    access = {"GET": somewhere(Verb.VIEW)}
    shape = ConsumerGroupShape

    def get(self, request: Request, name: str) -> Response:
        self.parse_parameters()
        group = describe_group(self.principal, name)
        if group is None:
            raise not_found(f"There is no consumer group {name}, or it reads no topic that you may read.")
        return Response(ConsumerGroupShape(group).data)
