"""The topics that a user may see: those of visible connectors, and those that the user may read by name."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Count

from ringfence import dispatch
from ringfence.access.principal import Principal, Verb
from ringfence.api.topic_grant_check import may_look_at
from ringfence.api.topics.readers import ELSEWHERE, is_administrator
from ringfence.dispatch import Refusal
from ringfence.projection.models import ActiveTopic, Connector
from ringfence.requests.topic_questions import DescribeTopics

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
