"""Topics for API and pages: who may read which, pages of records, and where records come from.

A user may see the topics of visible connectors, and those that the user may read by name. With `view-data` on a
connector, its topics are read on its cluster with its credentials. With `read-topics`, a topic of the workers' cluster
is read with the workers' login, whoever writes it. The platform's own topics and Kafka's are for administrators; the
config topic is readable by no one. The worker enforces this.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from django.db.models import Count
from django.http import HttpRequest
from rest_framework.exceptions import ValidationError

from ringfence import dispatch
from ringfence.access.authorise import Forbidden, authorise, principal_of
from ringfence.access.principal import Principal, Verb
from ringfence.api.topic_grant_check import may_look_at
from ringfence.api.v1.request_fields import IntegerField, MomentField, OneOfField, QueryShape, StringField, check
from ringfence.audit.trail import note
from ringfence.dispatch import Refusal
from ringfence.engine.questions import DescribeTopics, FindOrigin, ReadRecords
from ringfence.http.errors import ConnectError, bad_request
from ringfence.http.masking import Masker
from ringfence.projection.models import ActiveTopic, Connector, GenerationRow

ELSEWHERE = "producer.override.bootstrap.servers"
_MOST_WRITERS = 500


@dataclass(frozen=True, slots=True)
class TopicReader:
    """A topic that may be read. via: the connector whose credentials read it, "" for the workers' login."""

    topic: str
    via: str
    writers: Sequence[Connector]
    internal: bool

    def question(self) -> dict[str, Any]:
        """Return the fields of a `TopicQuestion`."""
        rows = self.writers
        if self.internal and not rows:  # its records may contain any connector's secrets
            rows = list(Connector.objects.filter(known=True).order_by("name")[:_MOST_WRITERS])
        masker = Masker(row.class_name for row in rows)
        writers = [_writer(row, masker) for row in rows]
        return {"topic": self.topic, "via": self.via, "writers": writers, "internal": self.internal}


def find_reader(request: HttpRequest, topic: str, connector: str = "") -> TopicReader:
    """connector: read it as one of this connector's topics. Raises `Forbidden`. From now on, a write's audit entry is
    about `via`.
    """
    who = principal_of(request)
    writers = find_writers(topic)
    internal = is_administrator(who)
    if connector:
        authorise(request, Verb.VIEW_DATA, connector)
        if connector not in [row.name for row in writers]:
            raise bad_request("Only topics that this connector has written to can be read.")
        if not may_look_at(topic, connector, who):
            raise ConnectError(403, f"You are not granted topic {topic}: its records are not shown.")
        return TopicReader(topic, connector, writers, internal)
    mine = [row for row in writers if who.may(Verb.VIEW_DATA, row.name) and may_look_at(topic, row.name, who)]
    if mine:
        via = min(mine, key=lambda row: (ELSEWHERE in row.settings, row.name)).name
        authorise(request, Verb.VIEW_DATA, via)
        return TopicReader(topic, via, writers, internal)
    _begin_entry(request)
    if not who.may_read_topic(topic):
        raise Forbidden(who, Verb.READ_TOPICS, topic, kind="topic")
    return TopicReader(topic, "", [row for row in writers if ELSEWHERE not in row.settings], internal)


def is_administrator(who: Principal) -> bool:
    """Return whether the user administers the platform, and may read its own topics."""
    return who.may_everywhere(Verb.ADMIN) and who.may_everywhere(Verb.READ_TOPICS)


def find_writers(topic: str) -> list[Connector]:
    """Return the connectors that have written to a topic of that name since their last reset."""
    names = ActiveTopic.objects.filter(topic=topic).values_list("connector", flat=True)
    return list(Connector.objects.filter(name__in=list(names), known=True).order_by("name")[:_MOST_WRITERS])


def _writer(row: Connector, masker: Masker) -> Mapping[str, object]:
    config = row.settings
    return {
        "name": row.name,
        "config": config,
        "secret": sorted(key for key in config if masker.secret(row.class_name, key)),
        "topics": sorted(ActiveTopic.objects.filter(connector=row.name).values_list("topic", flat=True)),
    }


def _begin_entry(request: HttpRequest) -> None:
    draft = getattr(request, "ringfence_draft", None)
    if draft is not None:
        draft.about("")


LEVELS: Final = ("read_committed", "read_uncommitted")
PLACES: Final = ("latest", "earliest", "offset", "time")
MOST: Final = 200
USUAL: Final = 50
_VALUES: Final = ("offset", "time")
"""The places that need a value, which is in the field of the same name."""
_TRIMMED: Final = (*_VALUES, "partition")
_MAY_BE_EMPTY: Final = (*_TRIMMED, "limit", "cursor")
_LARGEST: Final = 2**63 - 1
_LONGEST: Final = 1000
_MOST_PARTITIONS: Final = 1000


class CursorField(StringField):
    """Where the last page of the same search ended: an offset for each partition."""

    def describe(self) -> str:
        return "that of an answer: an object of partitions and offsets"

    def to_internal_value(self, data: Any) -> Any:
        try:
            loaded = json.loads(super().to_internal_value(data))
        except ValueError:
            self.fail("invalid")
        if not isinstance(loaded, dict) or not 0 < len(loaded) <= _MOST_PARTITIONS:
            self.fail("invalid")
        for key, at in loaded.items():
            if not (key.isascii() and key.isdigit() and len(key) < 10 and type(at) is int and 0 <= at <= _LARGEST):
                self.fail("invalid")
        return loaded


class RegistryField(StringField):
    def describe(self) -> str:
        return "an http(s) address without user and password"

    def to_internal_value(self, data: Any) -> Any:
        text = super().to_internal_value(data)
        parts = urlsplit(text)
        if text and (parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.password):
            self.fail("invalid")
        return text


def _text() -> StringField:
    too_long = f"must have at most {_LONGEST} characters"
    return StringField(default="", allow_blank=True, trim_whitespace=False, max_length=_LONGEST, refusal=too_long)


def _default_place(fields: Mapping[str, Any]) -> str:
    return next((name for name in _VALUES if name in fields), PLACES[0])


class RecordSearchShape(QueryShape):
    """`from`: where to start, by default at `offset` or `time` if one is given, otherwise with the latest."""

    from_ = OneOfField(choices=PLACES, default=PLACES[0])
    offset = IntegerField(default=None, min_value=0, max_value=_LARGEST)
    time = MomentField(default=None)
    partition = IntegerField(default=None, min_value=0, max_value=2**31 - 1)
    key = _text()
    contains = _text()
    where = _text()
    isolation = OneOfField(choices=LEVELS, default=LEVELS[0])
    limit = IntegerField(default=USUAL, min_value=1, max_value=MOST)
    cursor = CursorField(default=None, trim_whitespace=False)
    registry = RegistryField(default="", allow_blank=True, max_length=_LONGEST)
    connector = StringField(default="", allow_blank=True, trim_whitespace=False)

    def to_internal_value(self, data: Any) -> Any:
        return super().to_internal_value({"from": _default_place(data), **data})

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        place = attrs["from"]
        if place in _VALUES and attrs[place] is None:
            raise ValidationError({place: [f"must be given where from is {place}"]})
        return attrs


FIELDS: Final = tuple(RecordSearchShape().fields)


@dataclass(frozen=True, slots=True)
class RecordSearch:
    """A page of records. cursor: where the last page of the same search ended."""

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
    def of(query: Mapping[str, Any]) -> "RecordSearch":
        """Make it from the data that `RecordSearchShape` has validated."""
        place = query["from"]
        filters = {name: query[name] for name in ("partition", "contains", "where", "isolation", "limit", "cursor")}
        value = query[place] if place in _VALUES else 0
        return RecordSearch(place, value, key=query["key"] or None, registry=query["registry"], **filters)

    @staticmethod
    def parse(parameters: Mapping[str, str]) -> "RecordSearch":
        """Parse a form, which sends all of its fields: the empty ones, and places that `from` does not select, do not
        count. Raises `ConnectError` (400) that names the field.
        """
        fields = {name: text.strip() if name in _TRIMMED else text for name, text in parameters.items()}
        fields = {name: text for name, text in fields.items() if text or name not in _MAY_BE_EMPTY}
        place = fields.get("from", _default_place(fields))
        fields = {name: text for name, text in fields.items() if name == place or name not in _VALUES}
        return RecordSearch.of(check(RecordSearchShape, {**fields, "from": place}))

    @property
    def words(self) -> str:
        """Describe the request for the audit trail, without the searched values."""
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


PAGE_SIZE = 50
_FOREVER = "-1"


@dataclass(frozen=True, slots=True)
class TopicRow:
    """writers: the visible ones; more_writers: whether there are others. elsewhere: on a connector's own cluster, where
    only the name is known. facts: {} if nothing is known about it.
    """

    name: str
    writers: Sequence[str]
    more_writers: bool
    elsewhere: bool
    internal: str
    readable: bool
    facts: Mapping[str, Any]

    @property
    def retention_ms(self) -> int | None:
        """Milliseconds; None if unknown or unlimited."""
        text = self.facts.get("settings", {}).get("retention.ms", "")
        return int(text) if text and text != _FOREVER else None

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.facts.get("settings", {}).get("cleanup.policy", "")


@dataclass(frozen=True, slots=True)
class TopicPage:
    """problem: why Kafka did not answer. In that case, the names are those that connectors have written to."""

    rows: Sequence[TopicRow]
    count: int
    page: int
    pages: int
    problem: str = ""


def list_topics(who: Principal, search: str = "", page: int = 1, *, internal: bool = False) -> TopicPage:
    """page: from 1. internal: include the platform's and Kafka's own topics, for administrators."""
    active = _active(who)
    names, marked, problem = _names()
    visible_names = {name for name in names if who.may_read_topic(name)} | active.keys()
    if not (internal and is_administrator(who)):
        visible_names -= marked.keys()
    matches = sorted(name for name in visible_names if search.casefold() in name.casefold())
    pages = max(1, -(-len(matches) // PAGE_SIZE))
    page_number = min(max(1, page), pages)
    part = matches[(page_number - 1) * PAGE_SIZE : page_number * PAGE_SIZE]
    facts: dict[str, Mapping[str, Any]] = {}
    here = [name for name in part if name in names]
    if here and not problem:
        try:
            facts = {each["name"]: each for each in dispatch.ask(DescribeTopics(here))["topics"]}
        except Refusal as refused:
            problem = refused.message
    return TopicPage(_make_rows(part, who, active, marked, facts), len(matches), page_number, pages, problem)


def find_topic(who: Principal, name: str) -> TopicRow | None:
    """Return one topic; None if it is not visible or does not exist."""
    active = _active(who, topic=name)
    if name not in active and not who.may_read_topic(name):
        return None
    topics = dispatch.ask(DescribeTopics([name]))["topics"]
    facts = topics[0] if topics else {}
    internal = str(facts.get("internal", ""))
    if (not facts and name not in active) or (internal and not is_administrator(who)):
        return None
    return _make_rows([name], who, active, {name: internal}, {name: facts})[0]


def _names() -> tuple[frozenset[str], Mapping[str, str], str]:
    """Return every topic of the workers' cluster, the internal ones, and why Kafka does not answer."""
    try:
        answer = dispatch.ask(DescribeTopics())
    except Refusal as refused:
        return frozenset(), {}, refused.message
    return frozenset(answer["names"]), answer["internal"], ""


def _active(who: Principal, **only: str) -> dict[str, list[str]]:
    """Return topics that connectors write to, with the visible connectors, by name."""
    visible = set(Connector.objects.filter(who.query(Verb.VIEW), known=True).values_list("name", flat=True))
    by_topic: dict[str, list[str]] = {}
    for topic, connector in ActiveTopic.objects.filter(**only).order_by("connector").values_list("topic", "connector"):
        if connector in visible:
            by_topic.setdefault(topic, []).append(connector)
    return by_topic


def _make_rows(
    names: Sequence[str],
    who: Principal,
    active: Mapping[str, Sequence[str]],
    marked: Mapping[str, str],
    facts: Mapping[str, Mapping[str, Any]],
) -> list[TopicRow]:
    """As few queries for many topics as for one. Of the configurations, which cost a decryption each, only those of
    their writers are read.
    """
    writers = {connector for name in names for connector in active.get(name, ())}
    away = {row.name for row in Connector.objects.filter(name__in=writers) if ELSEWHERE in row.settings}
    of_all = ActiveTopic.objects.filter(topic__in=names).values_list("topic").annotate(Count("connector"))
    counts = dict(of_all.order_by())

    def make(name: str) -> TopicRow:
        connectors = active.get(name, ())
        readable = who.may_read_topic(name) or any(
            who.may(Verb.VIEW_DATA, connector) and may_look_at(name, connector, who) for connector in connectors
        )
        elsewhere = bool(connectors) and away.issuperset(connectors)
        more = counts.get(name, 0) > len(connectors)
        return TopicRow(name, connectors, more, elsewhere, marked.get(name, ""), readable, facts.get(name, {}))

    return [make(name) for name in names]
