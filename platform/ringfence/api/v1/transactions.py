"""`…/transactions`: a connector's transactional ids as their coordinators know them (KIP-664); `…/fence`: fence now.

Ending a transaction manually means fencing its id: Kafka aborts the open transaction, and its producer can commit
nothing more.
"""

from typing import Any

from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from ringfence import dispatch
from ringfence.access.authorise import on_connector
from ringfence.access.principal import Verb
from ringfence.api import connector_reads
from ringfence.api.v1.base import V1View
from ringfence.api.v1.connectors import FencedShape
from ringfence.api.v1.request_fields import FlagField, IntegerField, QueryShape, ReasonField, RequestShape, StringField
from ringfence.engine.leader import commands
from ringfence.engine.questions import DescribeTransactions, FindHanging
from ringfence.history import old_generations

_LONGEST_ID = 600
_LISTED = "must be an integer: GET …/transactions/hanging lists hanging transactions"


class PartitionShape(serializers.Serializer[Any]):
    topic = serializers.CharField()
    partition = serializers.IntegerField()


class TransactionShape(serializers.Serializer[Any]):
    """`state`: as Kafka names it, "" if the coordinator does not know the id; `age_ms`: of an open one,
    otherwise null; `transaction_version`: the cluster's, from 2 on late requests are refused by the broker (KIP-890).
    """

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
    transaction_version = serializers.IntegerField()
    partitions = PartitionShape(many=True)


class TransactionsShape(serializers.Serializer[Any]):
    connector = serializers.CharField()
    transactions = TransactionShape(many=True)


class FenceShape(RequestShape):
    """`reason`: for the audit trail. `transactional_id`: fence only this id; without it, force a round of all ids.

    `wait`: false answers 202 as soon as the round is in the config topic; by default the answer comes after the round.
    """

    reason = ReasonField()
    transactional_id = StringField(
        required=False,
        trim_whitespace=False,
        max_length=_LONGEST_ID,
        refusal="must be one of the connector's: GET …/transactions lists them",
    )
    wait = FlagField(default=True)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if not attrs["wait"] and "transactional_id" in attrs:
            raise ValidationError(
                "The field wait belongs to a round: one transactional id is fenced at once. Remove one of them"
            )
        return attrs


class FenceAnswerShape(serializers.Serializer[Any]):
    """`generation`: the new one after the round; null if one id was fenced."""

    connector = serializers.CharField()
    generation = serializers.IntegerField(allow_null=True)
    fenced = FencedShape(many=True)


class TransactionsQueryShape(QueryShape):
    open = FlagField(required=False)


class Transactions(V1View):
    """Queried from Kafka now, by a worker. `open=true`: only ids with an open transaction."""

    access = {"GET": on_connector(Verb.VIEW)}
    shape = TransactionsShape
    queries = {"GET": TransactionsQueryShape}

    def get(self, request: Request, name: str) -> Response:
        query = self.parse_query()
        row = connector_reads.connector(name)
        transactions = dispatch.ask(
            DescribeTransactions(
                name,
                old_generations.count_transactional_ids(row),
                row.settings,
                old_generations.find_unfenced_configs(row),
            )
        )
        if "open" in query:
            transactions = [each for each in transactions if each["open"] is query["open"]]
        return Response(TransactionsShape({"connector": name, "transactions": transactions}).data)


class HangingOneShape(serializers.Serializer[Any]):
    """Open on a partition, but unknown to every coordinator. `transactional_id`: of its producer, "" if unknown.

    `why_not`: why it may not be ended yet, "" if it may.
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


class EndHangingShape(RequestShape):
    reason = ReasonField()
    topic = StringField(trim_whitespace=False, refusal="must be the name of a topic")
    partition = IntegerField(min_value=0, max_value=2**31 - 1, refusal=_LISTED)
    producer_id = IntegerField(min_value=0, max_value=2**63 - 1, refusal=_LISTED)


class Hanging(V1View):
    """Transactions on the connector's topics that no coordinator knows (KIP-664). They block read_committed consumers
    forever, and fencing does not end them. POST ends one by a marker on its partition.
    """

    access = {"GET": on_connector(Verb.VIEW), "POST": on_connector(Verb.FENCE).writing()}
    shape = HangingShape
    takes = {"POST": EndHangingShape}

    def get(self, request: Request, name: str) -> Response:
        self.parse_parameters()
        row = connector_reads.connector(name)
        configs = [row.settings, *old_generations.find_unfenced_configs(row)]
        question = FindHanging(
            name, old_generations.count_transactional_ids(row), configs, sorted(old_generations.list_active_topics(row))
        )
        transactions = dispatch.ask(question)
        return Response(HangingShape({"connector": name, "hanging": transactions}).data)

    def post(self, request: Request, name: str) -> Response:
        self.parse_parameters()
        fields = self.parse_body()
        reason = fields["reason"]
        row = connector_reads.connector(name)
        self.tell_reason(reason)
        tasks, topics = old_generations.count_transactional_ids(row), old_generations.list_active_topics(row)
        command = commands.EndHanging(
            name,
            reason,
            fields["topic"],
            fields["partition"],
            fields["producer_id"],
            tasks,
            topics,
            old_generations.find_unfenced_configs(row),
        )
        ended = dispatch.command(command, user=self.user_name).value["ended"]
        return Response(HangingShape({"connector": name, "hanging": ended}).data)


class Fence(V1View):
    """Fence now: every id of the connector in a round (the tasks then restart), or a single id."""

    access = {"POST": on_connector(Verb.FENCE).writing()}
    shape = FenceAnswerShape
    takes = {"POST": FenceShape}
    later_codes = {"POST": [202]}

    def post(self, request: Request, name: str) -> Response:
        self.parse_parameters()
        fields = self.parse_body()
        reason, wait = fields["reason"], fields["wait"]
        connector_reads.connector(name)
        self.tell_reason(reason)
        if "transactional_id" in fields:
            one = dispatch.command(
                commands.FenceId(name, fields["transactional_id"], reason), user=self.user_name
            ).value
            generation, ids = None, old_generations.list_fenced_ids(name, one)
        else:
            result = dispatch.command(commands.FenceNow(name, reason, wait), user=self.user_name).value
            generation, ids = result["generation"], old_generations.list_fenced_ids(name, result)
        answer = FenceAnswerShape({"connector": name, "generation": generation, "fenced": ids}).data
        return Response(answer, status=200 if wait else 202)
