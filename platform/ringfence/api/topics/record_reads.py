"""A topic's records, and the origin of one, as a worker reads them."""

import json
import time
from typing import Any

from django.http import HttpRequest

from ringfence import dispatch
from ringfence.access.authorise import principal_of
from ringfence.access.principal import Verb
from ringfence.api.topics.readers import TopicReader
from ringfence.api.topics.search_query import RecordSearch
from ringfence.audit.trail import note
from ringfence.projection.models import GenerationRow
from ringfence.requests.topic_questions import FindOrigin


def read_records(request: HttpRequest, reader: TopicReader, search: RecordSearch, act: str = "read") -> dict[str, Any]:
    """Return the worker's answer, and write it to the audit trail. Raises `Refusal`."""
    note(request, f"{act} topic {reader.topic}: {search.words}")
    answer: dict[str, Any] = dispatch.ask(search.question(reader))
    answer["cursor"] = json.dumps(answer["cursor"], separators=(",", ":"))
    return answer


def find_origin(request: HttpRequest, reader: TopicReader, partition: int, offset: int) -> dict[str, Any]:
    """Return where a record came from, as far as its connector is visible. Raises `Refusal`."""
    answer: dict[str, Any] = dispatch.ask(FindOrigin(**reader.question(), partition=partition, offset=offset))
    source, who = answer.get("source"), principal_of(request)
    if source is None:
        return answer
    if not who.may(Verb.VIEW, source["connector"]):
        return {**answer, "source": None, "why": "It comes from a connector that you may not see."}
    row = GenerationRow.objects.filter(connector=source["connector"], generation=source["generation"]).first()
    return {**answer, "source": {**source, "generation_number": row.number if row else 0}}


def now_ms() -> int:
    return int(time.time() * 1000)
