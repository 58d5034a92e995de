"""What is known of topics: ids, partitions, leaders; and which of them have to be looked up. Pure."""

from math import inf
from typing import Final

from ringfence.fencing.transactions.error_codes import ErrorCode
from ringfence.fencing.transactions.messages import NO_TOPIC_ID, Place, TopicMetadata

_FRESH_SECONDS: Final = 1.0
_DELETED_SECONDS: Final = 2.0


class NoSuchPartition(Exception):
    """The topic has fewer partitions, and this was looked up a moment ago."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.count = count


class TopicView:
    """Times are those of a monotonic clock."""

    def __init__(self, look_again_s: float) -> None:
        """look_again_s: after which all topics are looked up again, since they may get more partitions."""
        self._look_again_s = look_again_s
        self.topics: dict[str, TopicMetadata] = {}
        self._due: set[str] = set()
        self._looked_up_at: dict[str, float] = {}
        self._missing_since: dict[str, float] = {}
        self._look_at = inf

    def want(self, topic: str) -> None:
        """Look a topic up, if it is not known."""
        if topic not in self.topics:
            self._due.add(topic)

    def refresh(self, topic: str) -> None:
        """Look a topic up again."""
        self._due.add(topic)

    def forget(self, topic: str) -> None:
        """Do not look it up."""
        self._due.discard(topic)

    def note_missing(self, name: str, now: float) -> bool:
        """A broker does not know the topic. Return whether it was deleted: it was known before, and brokers have denied
        it for longer than they take to hear of a new topic. It is forgotten then.
        """
        since = self._missing_since.setdefault(name, now)
        if name not in self.topics or now - since < _DELETED_SECONDS:
            return False
        for mapping in (self.topics, self._looked_up_at, self._missing_since):
            del mapping[name]
        self._due.discard(name)
        return True

    def is_missing(self, name: str) -> bool:
        """Return whether brokers do not know the topic, as far as they were asked."""
        return name in self._missing_since

    def list_due(self, now: float) -> list[str]:
        """Return the topics to look up now."""
        if now >= self._look_at:
            self._due.update(self._looked_up_at)
            self._look_at = now + self._look_again_s
        return sorted(self._due) if self._due else []

    def leader_of(self, place: Place, now: float) -> int:
        """Return the partition's leader, -1 for none, which is then looked up. Raises `NoSuchPartition`."""
        name, partition = place
        topic = self.topics.get(name)
        if topic is None:
            return -1
        if partition >= len(topic.leaders):
            if now - self._looked_up_at[name] < _FRESH_SECONDS:
                raise NoSuchPartition(len(topic.leaders))
            self._due.add(name)
            return -1
        if topic.leaders[partition] < 0:
            self._due.add(name)
        return topic.leaders[partition]

    def take(self, name: str, topic: TopicMetadata, now: float) -> bool:
        """Take what a broker says of a topic. Return whether it is another one of that name."""
        assert topic.error == ErrorCode.NONE
        before = self.topics.get(name)
        self.topics[name] = topic
        self._missing_since.pop(name, None)
        self._looked_up_at[name] = now
        self._look_at = min(self._look_at, now + self._look_again_s)
        self._due.discard(name)
        return before is not None and NO_TOPIC_ID != before.id != topic.id
