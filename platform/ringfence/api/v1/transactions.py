"""`…/transactions`: a connector's transactional ids as their coordinators know them (KIP-664); `…/fence`: fence now.

Ending a transaction by hand is fencing its id: Kafka aborts what is open, and whoever held it can commit nothing more.
"""

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from ringfence import dispatch
from ringfence.access.routes import on_connector
from ringfence.access.verbs import Verb
from ringfence.api import reading
from ringfence.api.v1.base import FLAG, V1View, require_reason
from ringfence.api.v1.connectors import FencedShape
from ringfence.history import old_generations
from ringfence.http.errors import bad_request
from ringfence.requests import commands
from ringfence.requests.questions import DescribeTransactions, FindHanging

_LARGEST_ID = 300


class PartitionShape(serializers.Serializer[Any]):
    topic = serializers.CharField()
    partition = serializers.IntegerField()


class TransactionShape(serializers.Serializer[Any]):
    """`state`: Kafka's word, "" where the coordinator does not know the id; `age_ms`: of an open one, else null."""

    cluster = serializers.CharField()
    id = serializers.CharField()
    task = serializers.IntegerField()
    state = serializers.CharField()
    open = serializers.BooleanField()
    producer_id = serializers.IntegerField()
    epoch = serializers.IntegerField()
    timeout_ms = serializers.IntegerField()
    started_ms = serializers.IntegerField()
    age_ms = serializers.IntegerField(allow_null=True)
    partitions = PartitionShape(many=True)


class TransactionsShape(serializers.Serializer[Any]):
    connector = serializers.CharField()
    transactions = TransactionShape(many=True)


class FenceShape(serializers.Serializer[Any]):
    """`reason`: for the audit trail. `transactional_id`: only that one; without, a round of all ids is forced.

    `wait`: false answers 202 as soon as the round is in the config topic; by default the answer comes after the round.
    """

    reason = serializers.CharField()
    transactional_id = serializers.CharField(required=False)
    wait = serializers.BooleanField(required=False)


class FenceAnswerShape(serializers.Serializer[Any]):
    """`generation`: the one that the round made way for; null where one id was fenced."""

    connector = serializers.CharField()
    generation = serializers.IntegerField(allow_null=True)
    fenced = FencedShape(many=True)


class Transactions(V1View):
    """Asked of Kafka at this moment, by a worker. `open=true`: only those with an open transaction."""

    access = {"GET": on_connector(Verb.VIEW)}
    shape = TransactionsShape
    parameters = {"GET": {"open": FLAG}}

    def get(self, request: Request, name: str) -> Response:
        asked = self.parse_parameters("open")
        if asked.get("open", "true") not in ("true", "false"):
            raise bad_request("open must be true or false.")
        row = reading.connector(name)
        found = dispatch.ask(
            DescribeTransactions(name, old_generations.ids(row), row.settings, old_generations.earlier(row))
        )
        if "open" in asked:
            found = [each for each in found if each["open"] is (asked["open"] == "true")]
        return Response(TransactionsShape({"connector": name, "transactions": found}).data)


class HangingOneShape(serializers.Serializer[Any]):
    """Open on a partition, unknown to every coordinator. `transactional_id`: whose producer it is, "" where unknown.

    `why_not`: why it may not be ended yet, "" where it may.
    """

    cluster = serializers.CharField()
    topic = serializers.CharField()
    partition = serializers.IntegerField()
    producer_id = serializers.IntegerField()
    epoch = serializers.IntegerField()
    start_offset = serializers.IntegerField()
    age_ms = serializers.IntegerField()
    transactional_id = serializers.CharField(allow_blank=True)
    why_not = serializers.CharField(allow_blank=True)


class HangingShape(serializers.Serializer[Any]):
    connector = serializers.CharField()
    hanging = HangingOneShape(many=True)


class EndHangingShape(serializers.Serializer[Any]):
    reason = serializers.CharField()
    topic = serializers.CharField()
    partition = serializers.IntegerField()
    producer_id = serializers.IntegerField()


class Hanging(V1View):
    """Transactions on the connector's topics that no coordinator knows (KIP-664): readers of committed records wait
    before them for ever, and fencing does not end them. POST ends one by a marker on its partition."""

    access = {"GET": on_connector(Verb.VIEW), "POST": on_connector(Verb.FENCE).writing()}
    shape = HangingShape
    takes = {"POST": EndHangingShape}

    def get(self, request: Request, name: str) -> Response:
        self.parse_parameters()
        row = reading.connector(name)
        configs = [row.settings, *old_generations.earlier(row)]
        question = FindHanging(name, old_generations.ids(row), configs, sorted(old_generations.topics(row)))
        found = dispatch.ask(question)
        return Response(HangingShape({"connector": name, "hanging": found}).data)

    def post(self, request: Request, name: str) -> Response:
        self.parse_parameters()
        fields = self.parse_fields("reason", "topic", "partition", "producer_id")
        reason, topic = require_reason(fields), fields.get("topic")
        if not isinstance(topic, str) or not topic:
            raise bad_request("topic must be the name of one.")
        partition, producer_id = (_number(fields, key) for key in ("partition", "producer_id"))
        row = reading.connector(name)
        self.tell_reason(reason)
        tasks, topics = old_generations.ids(row), old_generations.topics(row)
        wanted = commands.EndHanging(
            name, reason, topic, partition, producer_id, tasks, topics, old_generations.earlier(row)
        )
        ended = dispatch.command(wanted, user=self.user_name).value["ended"]
        return Response(HangingShape({"connector": name, "hanging": ended}).data)


def _number(fields: Mapping[str, Any], key: str) -> int:
    value = fields.get(key)
    if type(value) is not int or not 0 <= value < 2**63:
        raise bad_request(f"{key} must be an integer: GET …/transactions/hanging lists what hangs.")
    return value


class Fence(V1View):
    """Fence now: every id of the connector by a round of its own (the tasks then start again), or one id."""

    access = {"POST": on_connector(Verb.FENCE).writing()}
    shape = FenceAnswerShape
    takes = {"POST": FenceShape}
    later_codes = {"POST": [202]}

    def post(self, request: Request, name: str) -> Response:
        self.parse_parameters()
        fields = self.parse_fields("reason", "transactional_id", "wait")
        reason, wait = require_reason(fields), fields.get("wait", True)
        if not isinstance(wait, bool):
            raise bad_request("wait must be true or false.")
        if not wait and "transactional_id" in fields:
            raise bad_request("wait belongs to a round: one transactional id is fenced at once. Remove one of them.")
        reading.connector(name)
        self.tell_reason(reason)
        if "transactional_id" in fields:
            wanted = fields["transactional_id"]
            if not isinstance(wanted, str) or not wanted or len(wanted) > _LARGEST_ID + len(name):
                raise bad_request("transactional_id must be one of the connector's: GET …/transactions lists them.")
            one = dispatch.command(commands.FenceId(name, wanted, reason), user=self.user_name).value
            generation, shown = None, old_generations.fenced_ids(name, one)
        else:
            made = dispatch.command(commands.FenceNow(name, reason, wait), user=self.user_name).value
            generation, shown = made["generation"], old_generations.fenced_ids(name, made)
        answer = FenceAnswerShape({"connector": name, "generation": generation, "fenced": shown}).data
        return Response(answer, status=200 if wait else 202)
