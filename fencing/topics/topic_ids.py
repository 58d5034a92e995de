"""The ids of the topics with the cluster's state, so that a lost or replaced topic is noticed.

The leader writes one record to three topics: to the config and the status topic (`topic-ids`), and to the offsets topic
(`OFFSETS_KEY`). Kafka Connect ignores all of them. The database keeps a copy, too. So the loss of any topic is known
from what is left; the record with the highest version counts.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ringfence.fencing.topics.config_record import ConfigRecord, Fields, dump

if TYPE_CHECKING:
    from ringfence.fencing.topics.cluster_state import Fold


@dataclass(frozen=True, slots=True)
class Topics:
    """The names of the worker's four topics, and the ids of those without which an attempt must end ("": unknown)."""

    config: str
    offsets: str
    status: str
    events: str
    config_id: str = ""
    offsets_id: str = ""


KEY: Final = "topic-ids"

CONFIG, OFFSETS, STATUS, EVENTS = "config", "offsets", "status", "events"
ROLES: Final = (CONFIG, OFFSETS, STATUS, EVENTS)

PRECIOUS: Final = (CONFIG, OFFSETS)
"""The topics that cannot be rebuilt from anything else in Kafka: without the config topic nobody knows what to fence,
and without the offsets topic every source starts from its beginning. Only an operator may replace them. The status
topic holds reports, which running workers and tasks repeat; the events topic holds the events of the last day.
"""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic's name and its id (KIP-516)."""

    name: str
    id: str


@dataclass(frozen=True, slots=True)
class TopicIds(ConfigRecord):
    """The topics by role. version: increases with each change that the cluster or an operator has accepted; 0: never
    set.
    """

    version: int = 0
    topics: Mapping[str, Topic] = field(default_factory=dict)

    def after(self, topics: Mapping[str, Topic]) -> "TopicIds":
        """Return the next version if these topics differ, else this one."""
        return self if self.topics == topics else TopicIds(self.version + 1, dict(topics))

    PREFIXES = (KEY,)

    @classmethod
    def decode(cls, prefix: str, rest: str, raw: bytes | None) -> "TopicIds | None":
        """Decode a record. An unreadable one counts as missing: the other topics and the database have copies."""
        return None if rest else loads(raw)

    @classmethod
    def parse(cls, prefix: str, rest: str, value: Fields | None) -> "TopicIds | None":
        return None if rest or value is None else loads(dump(value))

    def to_key(self) -> str:
        return KEY

    def to_value(self) -> Fields:
        topics = {role: {"topic": one.name, "id": one.id} for role, one in sorted(self.topics.items())}
        return {"version": self.version, "topics": topics}

    def apply(self, cluster: "Fold", offset: int) -> None:
        cluster.topic_ids = self


@dataclass(frozen=True, slots=True)
class Loss:
    """A topic that is missing (`new_id` None), or that has another id than before."""

    role: str
    topic: str
    old_id: str
    new_id: str | None

    def __str__(self) -> str:
        if self.new_id is None:
            return f"the {self.role} topic {self.topic} (id {self.old_id}) is gone"
        return (
            f"the {self.role} topic {self.topic} is no longer the same topic (id {self.new_id}, it was {self.old_id})"
        )


def losses(ids: TopicIds, topics: Mapping[str, Topic | None]) -> list[Loss]:
    """Return the lost topics. topics: the topics that the worker's settings name, None for a missing one.

    A topic with another name was changed on purpose, in the worker's settings: that is not a loss.
    """
    lost = []
    for role, was in ids.topics.items():
        now = topics.get(role)
        if now is None or (now.name == was.name and now.id != was.id):
            lost.append(Loss(role, was.name, was.id, now.id if now else None))
    return lost


def newest(versions: Iterable[TopicIds | None]) -> TopicIds | None:
    """Return the newest of several copies; None if there are none."""
    return max((one for one in versions if one is not None), key=lambda one: one.version, default=None)


def explanation(lost: Sequence[Loss]) -> str:
    """Return a message: what is lost, what is kept, and what to do."""
    what = "; ".join(str(one) for one in lost)
    return (
        f"{what[:1].upper()}{what[1:]}. Tasks end, and nothing is written or created until a person decides: bring the "
        "original topic back, run `ringfence restore` (from a backup or from the database), or, if the present topics "
        "are correct, `ringfence topics accept`. See docs/backup.md"
    )


def offsets_key(group_id: str) -> bytes:
    """Return the key in the offsets topic. It is not a list, so it is never taken for a source partition."""
    return json.dumps({"ringfence": KEY, "group": group_id}, ensure_ascii=False, separators=(",", ":")).encode()


def dumps(ids: TopicIds) -> bytes:
    """Return the record's value."""
    return dump(ids.to_value())


def loads(value: bytes | str | None) -> TopicIds | None:
    """Parse a value; None if it is not such a record."""
    try:
        read = json.loads(value or b"null")
        topics = {str(role): Topic(str(one["topic"]), str(one["id"])) for role, one in read["topics"].items()}
        version = read["version"]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return TopicIds(version, topics) if isinstance(version, int) and not isinstance(version, bool) else None
