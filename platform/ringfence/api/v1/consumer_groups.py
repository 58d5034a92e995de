"""`/api/v1/consumer-groups`: the consumers of the topics that the caller may read, and their lag."""

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from ringfence.access.authorise import somewhere
from ringfence.access.principal import Verb
from ringfence.api import consumer_groups
from ringfence.api.v1.base import V1View
from ringfence.api.v1.request_fields import QueryShape, StringField
from ringfence.http.errors import not_found


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
        answer = consumer_groups.list_groups(self.principal, query["search"], query["topic"])
        return Response(ConsumerGroupListShape(answer).data)


class ConsumerGroup(V1View):
    """Members, and for each partition the committed offset, both lags and the open transaction that it waits for."""

    access = {"GET": somewhere(Verb.VIEW)}
    shape = ConsumerGroupShape

    def get(self, request: Request, name: str) -> Response:
        self.parse_parameters()
        group = consumer_groups.describe_group(self.principal, name)
        if group is None:
            raise not_found(f"There is no consumer group {name}, or it reads no topic that you may read.")
        return Response(ConsumerGroupShape(group).data)
