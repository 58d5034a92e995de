"""The topics that a connector may write to, by who saved its configuration: a record in the config topic. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.name_patterns import EVERYTHING, matches

Groups = tuple[tuple[str, ...], ...]
"""A topic has to match one pattern of each group: those of an account's grants, and those of its token."""


@dataclass(frozen=True, slots=True)
class TopicGrantRecord:
    """`topic-grant-<c>`: patterns None is a tombstone, which means all topics but internal ones. user: whose it is."""

    connector: ConnectorName
    patterns: Groups | None
    user: str = ""

    def covers(self, topic: str) -> bool:
        return all(any(matches(pattern, topic) for pattern in group) for group in self.patterns or ())

    def fields(self) -> dict[str, object]:
        """The record's value."""
        return {"patterns": [list(group) for group in self.patterns or ()], "user": self.user}

    def __str__(self) -> str:
        return describe(self.patterns or ())


def describe(groups: Groups) -> str:
    """For people."""
    return ", and of these ".join(" or ".join(group) or "none" for group in groups)


def limits(groups: Iterable[Iterable[str]]) -> Groups:
    """Without the groups that every topic matches; empty where nothing is limited."""
    told = (tuple(dict.fromkeys(group)) for group in groups)
    return tuple(group for group in told if EVERYTHING not in group)


def decode(connector: ConnectorName, value: Mapping[str, object]) -> TopicGrantRecord:
    """Raises KeyError, TypeError or ValueError for a value that is none."""
    groups = value["patterns"]
    if not isinstance(groups, list) or not all(isinstance(group, list) for group in groups):
        raise TypeError("patterns must be a list of lists")
    found = tuple(tuple(str(pattern) for pattern in group) for group in groups)
    return TopicGrantRecord(connector, found, str(value.get("user", "")))
