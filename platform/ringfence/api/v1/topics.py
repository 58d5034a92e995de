"""`/api/v1/topics`: the topics that the caller may see, their records, and a record's origin."""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from ringfence.access.routes import somewhere
from ringfence.access.verbs import Verb
from ringfence.api.parameters import whole
from ringfence.api.topics import record_reads, visible_topics
from ringfence.api.topics.readers import find_reader
from ringfence.api.topics.search_query import RecordSearch, RecordSearchShape
from ringfence.api.topics.visible_topics import TopicRow
from ringfence.api.v1.base import V1View
from ringfence.api.v1.request_fields import FlagField, IntegerField, QueryShape, StringField
from ringfence.api.v1.topic_shapes import RecordOriginShape, TopicListShape, TopicRecordsShape, TopicShape
from ringfence.audit.trail import note
from ringfence.http.errors import not_found


class TopicsQueryShape(QueryShape):
    search = StringField(default="", allow_blank=True, trim_whitespace=False)
    page = IntegerField(default=1, min_value=1, max_value=10**6)
    internal = FlagField(default=False)


class Topics(V1View):
    """The topics of connectors that you may see and, with `read-topics`, those that its patterns cover."""

    access = {"GET": somewhere(Verb.VIEW)}
    shape = TopicListShape
    queries = {"GET": TopicsQueryShape}

    def get(self, request: Request) -> Response:
        query = self.parse_query()
        page = visible_topics.list_topics(self.principal, query["search"], query["page"], internal=query["internal"])
        body = {"count": page.count, "page": page.page, "pages": page.pages, "problem": page.problem}
        return Response(TopicListShape({**body, "results": [_row(each) for each in page.rows]}).data)


class Topic(V1View):
    """One topic."""

    access = {"GET": somewhere(Verb.VIEW)}
    shape = TopicShape

    def get(self, request: Request, name: str) -> Response:
        self.parse_parameters()
        row = visible_topics.find_topic(self.principal, name)
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
        answer = record_reads.read_records(self.http_request, reader, record_search)
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
        origin = record_reads.find_origin(self.http_request, reader, *place)
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
