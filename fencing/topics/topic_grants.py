"""The topics that a connector may write to, by the account that saved its configuration: a config record. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.name_patterns import EVERYTHING, matches
from ringfence.fencing.topics.config_record import ConnectorScopedRecord, Fields
from ringfence.fencing.topics.connector_state import ConnectorState

Groups = tuple[tuple[str, ...], ...]
"""A topic must match one pattern of each group: one of the account's grants, and one of its token."""


@dataclass(frozen=True, slots=True)
class TopicGrantRecord(ConnectorScopedRecord):
    """`topic-grant-<c>`: patterns None is a tombstone, which means all topics but internal ones; () means the same.

    user: the account; the leader writes a new record when its grants change. token: the limit of the token with which
    the configuration was saved; None in records of earlier versions, which do not say.
    """

    connector: ConnectorName
    patterns: Groups | None
    user: str = ""
    token: Groups | None = None

    def covers(self, topic: str) -> bool:
        return all(any(matches(pattern, topic) for pattern in group) for group in self.patterns or ())

    def follow(self, topics: Iterable[str]) -> "TopicGrantRecord":
        """Return the grant after the account's topics for the connector have changed to these."""
        now = limits([tuple(topics), *(self.token if self.token is not None else self.patterns or ())])
        return replace(self, patterns=tuple(dict.fromkeys(now)))

    def refusal(self, topic: str) -> str:
        """Return why no record may go to the topic, as a message; "" if it may."""
        if self.covers(topic):
            return ""
        return (
            f"{topic} is not among the topics that {self.user or 'the editor of this connector'} may write "
            f"to ({self}). Name another topic, or have an administrator grant this one and save the "
            "configuration again"
        )

    PREFIXES = ("topic-grant-",)

    @classmethod
    def parse(cls, prefix: str, rest: str, value: Fields | None) -> "TopicGrantRecord | None":
        if not rest:
            return None
        if value is None:
            return cls(ConnectorName(rest), None)
        token = _groups(value["token"]) if "token" in value else None
        return cls(ConnectorName(rest), _groups(value["patterns"]), str(value.get("user", "")), token)

    @property
    def owner(self) -> ConnectorName:
        return self.connector

    def to_key(self) -> str:
        return f"topic-grant-{self.connector}"

    def to_value(self) -> Fields | None:
        if self.patterns is None:
            return None
        fields: Fields = {"patterns": [list(group) for group in self.patterns], "user": self.user}
        return fields if self.token is None else {**fields, "token": [list(group) for group in self.token]}

    @classmethod
    def tombstone_of(cls, connector: ConnectorState) -> "TopicGrantRecord | None":
        return cls(connector.name, None) if connector.topic_grant is not None else None

    def apply_to(self, state: ConnectorState, offset: int) -> ConnectorState:
        return replace(state, topic_grant=None if self.patterns is None else self)

    def __str__(self) -> str:
        return describe(self.patterns or ())


def _groups(value: object) -> Groups:
    if not isinstance(value, list) or not all(isinstance(group, list) for group in value):
        raise TypeError("patterns must be a list of lists")
    return tuple(tuple(str(pattern) for pattern in group) for group in value)


def describe(groups: Groups) -> str:
    """Describe the groups in a message."""
    return ", and of these ".join(" or ".join(group) or "none" for group in groups)


def limits(groups: Iterable[Iterable[str]]) -> Groups:
    """Return the groups without those that every topic matches; empty if nothing is limited."""
    unique_groups = (tuple(dict.fromkeys(group)) for group in groups)
    return tuple(group for group in unique_groups if EVERYTHING not in group)
