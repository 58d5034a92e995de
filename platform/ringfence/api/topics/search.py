"""What somebody asks of a topic's records, out of a query or a form, and the answer."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from django.http import HttpRequest

from ringfence import dispatch
from ringfence.access.authorise import principal_of
from ringfence.access.verbs import Verb
from ringfence.api.parameters import moment, whole
from ringfence.api.topics.readers import TopicReader
from ringfence.audit.trail import note
from ringfence.http.errors import bad_request
from ringfence.projection.models import GenerationRow
from ringfence.requests.topic_questions import FindOrigin, ReadRecords

LEVELS = ("read_committed", "read_uncommitted")
PLACES = ("latest", "earliest", "offset", "time")
MOST = 200
USUAL = 50
_LARGEST = 2**63 - 1
_LONGEST = 1000
_MOST_PARTITIONS = 1000
FIELDS = (
    "from", "offset", "time", "partition", "key", "contains", "where", "isolation", "limit", "cursor", "registry",
    "connector",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class RecordSearch:
    """A page that is asked for. cursor: where the last page of the same search ended."""

    place: str = "latest"
    value: int = 0
    partition: int | None = None
    key: str | None = None
    contains: str = ""
    where: str = ""
    isolation: str = LEVELS[0]
    limit: int = USUAL
    cursor: Mapping[str, int] | None = None
    registry: str = field(default="", repr=False)

    @staticmethod
    def parse(given: Mapping[str, str]) -> "RecordSearch":
        """Raises ConnectError (400) that names the field."""
        usual = "offset" if given.get("offset") else "time" if given.get("time") else PLACES[0]
        place = given.get("from", usual)
        if place not in PLACES:
            raise bad_request(f"from must be one of {', '.join(PLACES)}.")
        value = 0
        if place == "offset":
            value = whole(given.get("offset", "").strip(), "offset")
        elif place == "time":
            value = moment(given.get("time", "").strip(), "time")
        isolation = given.get("isolation", LEVELS[0])
        if isolation not in LEVELS:
            raise bad_request(f"isolation must be one of {', '.join(LEVELS)}.")
        partition = given.get("partition", "").strip()
        for name in ("contains", "where", "key", "registry"):
            if len(given.get(name, "")) > _LONGEST:
                raise bad_request(f"{name} must have at most {_LONGEST} characters.")
        return RecordSearch(
            place,
            value,
            whole(partition, "partition", 0, 2**31 - 1) if partition else None,
            given.get("key") or None,
            given.get("contains", ""),
            given.get("where", ""),
            isolation,
            whole(given["limit"], "limit", 1, MOST) if given.get("limit") else USUAL,
            _cursor(given.get("cursor", "")),
            _registry(given.get("registry", "").strip()),
        )

    @property
    def words(self) -> str:
        """For the audit trail: what was asked for, without the values that were searched."""
        place = self.place if self.place in ("latest", "earliest") else f"{self.place} {self.value}"
        parts = [f"from {place}", f"as {self.isolation}"]
        parts += [f"partition {self.partition}"] if self.partition is not None else []
        parts += [name for name in ("key", "contains", "where") if getattr(self, name)]
        return ", ".join(parts)

    def question(self, reader: TopicReader) -> ReadRecords:
        return ReadRecords(
            **reader.question(),
            start={"from": self.place, "value": self.value, "cursor": self.cursor},
            partitions=None if self.partition is None else [self.partition],
            records=self.limit,
            committed_only=self.isolation == LEVELS[0],
            key=self.key,
            contains=self.contains,
            where=self.where,
            registry=self.registry,
        )


def read_records(request: HttpRequest, reader: TopicReader, search: RecordSearch, act: str = "read") -> dict[str, Any]:
    """The worker's answer; the audit trail hears of it. Raises Refused."""
    note(request, f"{act} topic {reader.topic}: {search.words}")
    found: dict[str, Any] = dispatch.ask(search.question(reader))
    found["cursor"] = json.dumps(found["cursor"], separators=(",", ":"))
    return found


def find_origin(request: HttpRequest, reader: TopicReader, partition: int, offset: int) -> dict[str, Any]:
    """Where a record came from, as far as its connector may be seen. Raises Refused."""
    found: dict[str, Any] = dispatch.ask(FindOrigin(**reader.question(), partition=partition, offset=offset))
    source, who = found.get("source"), principal_of(request)
    if source is None:
        return found
    if not who.may(Verb.VIEW, source["connector"]):
        return {**found, "source": None, "why": "It comes from a connector that you may not see."}
    row = GenerationRow.objects.filter(connector=source["connector"], generation=source["generation"]).first()
    return {**found, "source": {**source, "generation_number": row.number if row else 0}}


def now_ms() -> int:
    return int(time.time() * 1000)


def _cursor(text: str) -> dict[str, int] | None:
    if not text:
        return None
    try:
        loaded = json.loads(text)
    except ValueError:
        loaded = None
    numbers = isinstance(loaded, dict) and 0 < len(loaded) <= _MOST_PARTITIONS
    if not numbers or not all(
        key.isascii() and key.isdigit() and len(key) < 10 and type(at) is int and 0 <= at <= _LARGEST
        for key, at in loaded.items()
    ):
        raise bad_request("cursor must be that of an answer: an object of partitions and offsets.")
    return dict(loaded)


def _registry(text: str) -> str:
    if text:
        parts = urlsplit(text)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.password:
            raise bad_request("registry must be an http(s) address without user and password.")
    return text
