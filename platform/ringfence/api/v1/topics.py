"""`/api/v1/topics`: the topics that the caller may see, their records, and a record's origin."""

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from ringfence.access.authorise import somewhere
from ringfence.access.principal import Verb
from ringfence.api import topics
from ringfence.api.topics import RecordSearch, RecordSearchShape, TopicRow, find_reader
from ringfence.api.v1.base import V1View
from ringfence.api.v1.request_fields import FlagField, IntegerField, QueryShape, StringField, whole
from ringfence.audit.trail import note
from ringfence.http.errors import not_found


class TopicsQueryShape(QueryShape):
    search = StringField(default="", allow_blank=True, trim_whitespace=False)
    page = IntegerField(default=1, min_value=1, max_value=10**6)
    internal = FlagField(default=False)


class TopicShape(serializers.Serializer[Any]):
    """`connectors`: those that write to it and that you may see. `offsets`: from the first to the end, over all
    partitions; null if Kafka did not answer. `elsewhere`: on a connector's own cluster. `internal`: its purpose.
    """

    topic = serializers.CharField()
    connectors = serializers.ListField(child=serializers.CharField())
    elsewhere = serializers.BooleanField()
    internal = serializers.CharField(allow_blank=True)
    readable = serializers.BooleanField()
    partitions = serializers.IntegerField(allow_null=True)
    replicas = serializers.IntegerField(allow_null=True)
    offsets = serializers.IntegerField(allow_null=True)
    newest_ms = serializers.IntegerField(allow_null=True)
    settings = serializers.DictField(child=serializers.CharField())


class TopicListShape(serializers.Serializer[Any]):
    count = serializers.IntegerField()
    page = serializers.IntegerField()
    pages = serializers.IntegerField()
    problem = serializers.CharField(allow_blank=True)
    results = TopicShape(many=True)


class RecordFieldShape(serializers.Serializer[Any]):
    """`kind`: null, empty, string, JSON, JSON with schema, Avro, JSON Schema, Protobuf or hex. `size`: of the whole in
    bytes, -1 for null; `cut`: the text is only the beginning. `problem`: why the schema was not used.
    """

    kind = serializers.CharField()
    text = serializers.CharField(allow_blank=True, trim_whitespace=False)
    size = serializers.IntegerField()
    cut = serializers.BooleanField()
    schema = serializers.CharField(allow_blank=True)
    problem = serializers.CharField(allow_blank=True)


class RecordHeaderShape(RecordFieldShape):
    name = serializers.CharField(allow_blank=True, trim_whitespace=False)


class TopicRecordShape(serializers.Serializer[Any]):
    """`seen`: committed; with read_uncommitted also aborted, open, and waiting: committed, but behind an open
    transaction."""

    partition = serializers.IntegerField()
    offset = serializers.IntegerField()
    timestamp_ms = serializers.IntegerField()
    seen = serializers.ChoiceField(choices=["committed", "aborted", "open", "waiting"])
    key = RecordFieldShape()
    value = RecordFieldShape()
    headers = RecordHeaderShape(many=True)


class TopicPartitionShape(serializers.Serializer[Any]):
    """`stable`: the last stable offset; `start`, `until`: the range that was read."""

    partition = serializers.IntegerField()
    first = serializers.IntegerField()
    stable = serializers.IntegerField()
    end = serializers.IntegerField()
    start = serializers.IntegerField()
    until = serializers.IntegerField()


class OpenTransactionShape(serializers.Serializer[Any]):
    partition = serializers.IntegerField()
    producer_id = serializers.IntegerField()
    first_offset = serializers.IntegerField()
    transactional_id = serializers.CharField(allow_blank=True)
    since_ms = serializers.IntegerField()


class TopicRecordsShape(serializers.Serializer[Any]):
    """The oldest first; from `latest`, the newest first. `cursor`: the parameter of the next page of the same search;
    `more`: whether it may contain records. `complete`: neither time nor size ended the search. `scanned`: offsets.
    """

    topic = serializers.CharField()
    records = TopicRecordShape(many=True)
    partitions = TopicPartitionShape(many=True)
    partition_count = serializers.IntegerField()
    cursor = serializers.CharField()
    more = serializers.BooleanField()
    complete = serializers.BooleanField()
    scanned = serializers.IntegerField()
    open_transactions = OpenTransactionShape(many=True)


class RecordTransactionShape(serializers.Serializer[Any]):
    """`state`: committed, aborted or open. `coordinator_state` and `_epoch`: of the transactional id that now has the
    producer id.
    """

    producer_id = serializers.IntegerField()
    epoch = serializers.IntegerField()
    state = serializers.ChoiceField(choices=["committed", "aborted", "open"])
    marker_offset = serializers.IntegerField()
    marker_ms = serializers.IntegerField()
    transactional_id = serializers.CharField(allow_blank=True)
    coordinator_state = serializers.CharField(allow_blank=True)
    coordinator_epoch = serializers.IntegerField()
    problem = serializers.CharField(allow_blank=True)


class RecordOffsetShape(serializers.Serializer[Any]):
    """`before`: the offset of that source partition before this transaction, if it is still in the topic."""

    topic = serializers.CharField()
    kafka_partition = serializers.IntegerField()
    kafka_offset = serializers.IntegerField()
    partition = serializers.DictField()
    offset = serializers.DictField(allow_null=True)
    before = serializers.DictField(allow_null=True)


class RecordSourceShape(serializers.Serializer[Any]):
    """`exact`: proved by the numbers that brokers and tasks keep; otherwise the nearest transaction of that producer in
    time. task, generation, attempt: -1 if an earlier version wrote it.
    """

    connector = serializers.CharField()
    task = serializers.IntegerField()
    generation = serializers.IntegerField()
    generation_number = serializers.IntegerField()
    attempt = serializers.IntegerField()
    exact = serializers.BooleanField()
    offsets = RecordOffsetShape(many=True)


class RecordOriginShape(serializers.Serializer[Any]):
    """`transaction`: null for a record without one. `why`: why there is no `source`."""

    topic = serializers.CharField()
    partition = serializers.IntegerField()
    offset = serializers.IntegerField()
    transaction = RecordTransactionShape(allow_null=True)
    why = serializers.CharField(allow_blank=True)

    def get_fields(self) -> dict[str, Any]:
        return {
            **super().get_fields(),
            "source": RecordSourceShape(allow_null=True),
        }  # every field has an attribute of this name


class Topics(V1View):
    """The topics of connectors that you may see and, with `read-topics`, those that its patterns cover."""

    access = {"GET": somewhere(Verb.VIEW)}
    shape = TopicListShape
    queries = {"GET": TopicsQueryShape}

    def get(self, request: Request) -> Response:
        query = self.parse_query()
        page = topics.list_topics(self.principal, query["search"], query["page"], internal=query["internal"])
        body = {"count": page.count, "page": page.page, "pages": page.pages, "problem": page.problem}
        return Response(TopicListShape({**body, "results": [_row(each) for each in page.rows]}).data)


class Topic(V1View):
    """One topic."""

    access = {"GET": somewhere(Verb.VIEW)}
    shape = TopicShape

    def get(self, request: Request, name: str) -> Response:
        self.parse_parameters()
        row = topics.find_topic(self.principal, name)
        if row is None:
            raise not_found(f"There is no topic {name}, or you may not see it.")
        return Response(TopicShape(_row(row)).data)


class TopicRecords(V1View):
    """A page of records, read now. Leaves an audit entry, and joins no group."""

    access = {"GET": somewhere(Verb.VIEW_DATA).writing()}
    shape = TopicRecordsShape
    queries = {"GET": RecordSearchShape}

    def get(self, request: Request, name: str) -> Response:
        query = self.parse_query()
        record_search = RecordSearch.of(query)
        reader = find_reader(self.http_request, name, query["connector"])
        answer = topics.read_records(self.http_request, reader, record_search)
        return Response(TopicRecordsShape({**answer, "topic": name}).data)


class OriginQueryShape(QueryShape):
    connector = StringField(default="", allow_blank=True, trim_whitespace=False)


class RecordOrigin(V1View):
    """The connector, task, generation, transaction and source offset that a record came from."""

    access = {"GET": somewhere(Verb.VIEW_DATA).writing()}
    shape = RecordOriginShape
    queries = {"GET": OriginQueryShape}

    def get(self, request: Request, name: str, partition: int, offset: int) -> Response:
        query = self.parse_query()
        place = (whole(str(partition), "partition", 0, 2**31 - 1), whole(str(offset), "offset"))
        reader = find_reader(self.http_request, name, query["connector"])
        note(self.http_request, f"looked at where {name}-{partition} offset {offset} comes from")
        origin = topics.find_origin(self.http_request, reader, *place)
        body = {"transaction": None, "source": None, "why": "", **origin}
        return Response(RecordOriginShape({**body, "topic": name, "partition": partition, "offset": offset}).data)


def _row(row: TopicRow) -> dict[str, Any]:
    facts = row.facts
    return {
        "topic": row.name,
        "connectors": row.writers,
        "elsewhere": row.elsewhere,
        "internal": row.internal,
        "readable": row.readable,
        **{key: facts.get(key) for key in ("partitions", "replicas", "offsets", "newest_ms")},
        "settings": facts.get("settings", {}),
    }
