"""The topics that a connector may write to, by who saved its configuration: a record in the config topic. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.name_patterns import EVERYTHING, matches
from ringfence.fencing.topics.config_record import ConnectorScopedRecord, Fields
from ringfence.fencing.topics.connector_state import ConnectorState

Groups = tuple[tuple[str, ...], ...]
"""A topic has to match one pattern of each group: those of an account's grants, and those of its token."""


@dataclass(frozen=True, slots=True)
class TopicGrantRecord(ConnectorScopedRecord):
    """`topic-grant-<c>`: patterns None is a tombstone, which means all topics but internal ones. user: whose it is."""

    connector: ConnectorName
    patterns: Groups | None
    user: str = ""

    def covers(self, topic: str) -> bool:
        return all(any(matches(pattern, topic) for pattern in group) for group in self.patterns or ())

    PREFIXES = ("topic-grant-",)

    @classmethod
    def parse(cls, prefix: str, rest: str, value: Fields | None) -> "TopicGrantRecord | None":
        if not rest:
            return None
        if value is None:
            return cls(ConnectorName(rest), None)
        groups = value["patterns"]
        if not isinstance(groups, list) or not all(isinstance(group, list) for group in groups):
            raise TypeError("patterns must be a list of lists")
        found = tuple(tuple(str(pattern) for pattern in group) for group in groups)
        return cls(ConnectorName(rest), found, str(value.get("user", "")))

    @property
    def owner(self) -> ConnectorName:
        return self.connector

    def to_key(self) -> str:
        return f"topic-grant-{self.connector}"

    def to_value(self) -> Fields | None:
        if self.patterns is None:
            return None
        return {"patterns": [list(group) for group in self.patterns], "user": self.user}

    def apply_to(self, state: ConnectorState, offset: int) -> ConnectorState:
        return replace(state, topic_grant=None if self.patterns is None else self)

    def __str__(self) -> str:
        return describe(self.patterns or ())


def describe(groups: Groups) -> str:
    """For people."""
    return ", and of these ".join(" or ".join(group) or "none" for group in groups)


def limits(groups: Iterable[Iterable[str]]) -> Groups:
    """Without the groups that every topic matches; empty where nothing is limited."""
    told = (tuple(dict.fromkeys(group)) for group in groups)
    return tuple(group for group in told if EVERYTHING not in group)
