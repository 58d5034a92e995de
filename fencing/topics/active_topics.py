"""Which topics a connector writes to (KIP-558): `status-topic-<topic>:connector-<connector>` in the status topic."""

from dataclasses import dataclass, replace
from typing import Final, cast

from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.topics.config_record import ConnectorScopedRecord, Fields, parse_integer
from ringfence.fencing.topics.connector_state import ConnectorState
from ringfence.fencing.topics.status_entry import StatusEntry, StatusFold

_BETWEEN: Final = ":connector-"


@dataclass(frozen=True, slots=True)
class TopicStatus(StatusEntry):
    """Says that a task of the connector has committed records to the topic. since_ms: wall clock of the first such
    commit; topic_id: of the topic, in hexadecimal digits, "" if it is not known.
    """

    connector: ConnectorName
    topic: str
    task: int
    since_ms: int
    topic_id: str = ""

    PREFIX = "status-topic-"

    @classmethod
    def parse(cls, rest: str, value: Fields) -> "TopicStatus | None":
        parts = _split(rest)
        if parts is None:
            return None
        fields = cast(dict[str, object], value["topic"])
        since = fields.get("discoverTimestamp")
        since_ms, topic_id = since if isinstance(since, int) else 0, fields.get("id")
        return cls(*parts, int(str(fields["task"])), since_ms, topic_id[:32] if isinstance(topic_id, str) else "")

    def to_key(self) -> str:
        return key_of(self.connector, self.topic)

    def to_value(self) -> Fields:
        fields = {
            "name": self.topic,
            "connector": self.connector,
            "task": self.task,
            "discoverTimestamp": self.since_ms,
        }
        return {"topic": {**fields, "id": self.topic_id} if self.topic_id else fields}

    def apply_to(self, fold: StatusFold) -> None:
        fold.set_topics(self.connector, fold.topics(self.connector) | {self.topic})

    @classmethod
    def remove(cls, rest: str, fold: StatusFold) -> None:
        if (parts := _split(rest)) is None:
            return
        connector, topic = parts
        fold.set_topics(connector, fold.topics(connector) - {topic})


@dataclass(frozen=True, slots=True)
class TopicsResetRecord(ConnectorScopedRecord):
    """`topics-reset-<c>` in the config topic: the active topics were reset, and tasks report theirs again.

    None is a tombstone.
    """

    connector: ConnectorName
    time_ms: int | None

    PREFIXES = ("topics-reset-",)

    @classmethod
    def parse(cls, prefix: str, rest: str, value: Fields | None) -> "TopicsResetRecord | None":
        if not rest:
            return None
        return cls(ConnectorName(rest), None if value is None else parse_integer(value, "time_ms"))

    @property
    def owner(self) -> ConnectorName:
        return self.connector

    def to_key(self) -> str:
        return f"topics-reset-{self.connector}"

    def to_value(self) -> Fields | None:
        return None if self.time_ms is None else {"time_ms": self.time_ms}

    @classmethod
    def tombstone_of(cls, connector: ConnectorState) -> "TopicsResetRecord | None":
        return cls(connector.name, None) if connector.topics_reset >= 0 else None

    def apply_to(self, state: ConnectorState, offset: int) -> ConnectorState:
        return replace(state, topics_reset=-1 if self.time_ms is None else offset)


def key_of(connector: ConnectorName, topic: str) -> str:
    return f"{TopicStatus.PREFIX}{topic}{_BETWEEN}{connector}"


def parts_of(key: str) -> tuple[ConnectorName, str] | None:
    """Return connector and topic of a key; None for any other key."""
    return _split(key.removeprefix(TopicStatus.PREFIX)) if key.startswith(TopicStatus.PREFIX) else None


def _split(rest: str) -> tuple[ConnectorName, str] | None:
    """Split at the colon, which no topic has in its name."""
    topic, between, connector = rest.partition(_BETWEEN)
    return (ConnectorName(connector), topic) if topic and between and connector else None
