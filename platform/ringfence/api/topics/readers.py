"""Who may read a topic, and how: as a connector's topic, or by its own name.

With `view-data` on a connector, its topics are read on its cluster with its credentials. With `read-topics`, a topic of
the workers' cluster is read with the workers' login, whoever writes it. The platform's own topics and Kafka's are for
administrators; the config topic is readable by no one. The worker enforces this.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest

from ringfence.access.authorise import Forbidden, authorise, principal_of
from ringfence.access.principal import Principal, Verb
from ringfence.api.topic_grant_check import may_look_at
from ringfence.http.errors import ConnectError, bad_request
from ringfence.http.masking import Masker
from ringfence.projection.models import ActiveTopic, Connector

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
