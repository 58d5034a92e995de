"""What is read of each partition and from whom, and what answers mean. Pure; times are of a monotonic clock."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from ringfence.connectors.api import ConnectorError, RetriableError
from ringfence.connectors.api.fetching import NO_TOPIC, NOT_ALLOWED, OutOfRange, Place
from ringfence.fencing.fetching.fetch_request import FetchedPartition, Position
from ringfence.fencing.fetching.fetched_batches import Fetched, select_committed, split_batches
from ringfence.fencing.transactions.error_codes import ErrorCode, name_of
from ringfence.fencing.transactions.messages import NO_TOPIC_ID, MetadataResponse, TopicMetadata

_OUT_OF_RANGE: Final = 1
_LEADER_NOT_KNOWN: Final = 78  # OFFSET_NOT_AVAILABLE: a new leader does not know yet how far readers may read
_E = ErrorCode
_MOVED: Final = frozenset(
    {
        _E.UNKNOWN_TOPIC_OR_PARTITION, _E.LEADER_NOT_AVAILABLE, _E.NOT_LEADER_OR_FOLLOWER, _E.REPLICA_NOT_AVAILABLE,
        _E.KAFKA_STORAGE_ERROR, _E.FENCED_LEADER_EPOCH, _E.UNKNOWN_LEADER_EPOCH, _E.UNKNOWN_TOPIC_ID,
        _E.INCONSISTENT_TOPIC_ID, _E.BROKER_NOT_AVAILABLE, _LEADER_NOT_KNOWN,
    }
)  # fmt: skip
"""Errors after which the leaders are looked up again."""
_PASSING: Final = frozenset({_E.LEADER_NOT_AVAILABLE, _E.REQUEST_TIMED_OUT, _E.THROTTLING_QUOTA_EXCEEDED})
_MISSING_S: Final = 5.0
"""For so long a topic may be unknown: a broker knows of an election, or of a new topic, a moment later."""
_PREFERRED_S: Final = 300.0
"""After so long, the leader is asked again which replica to read from."""


@dataclass(slots=True)
class _Partition:
    """leader: -1 if it is not known; replica: the one to read from in its place, up to `replica_until`; revision: of
    the position, so that an answer to an older one is told apart.
    """

    position: Position
    leader: int = -1
    replica: int = -1
    replica_until: float = 0.0
    revision: int = 0


class FetchState:
    """The partitions of one reader, in the order in which leaders are asked for them: one that gave records is last."""

    def __init__(self, most_bytes: int, *, checks: bool = False) -> None:
        """most_bytes: of a batch that may go whole. checks: whether to compare checksums."""
        self._most_bytes = most_bytes
        self._checks = checks
        self._partitions: dict[Place, _Partition] = {}
        self._topics: dict[str, TopicMetadata] = {}
        self._missing_since: dict[str, float] = {}
        self._revision = 0
        self.stale: set[str] = set()
        """Topics that have to be looked up."""

    @property
    def positions(self) -> dict[Place, int]:
        return {place: each.position.offset for place, each in self._partitions.items()}

    @property
    def topic_ids(self) -> dict[str, bytes]:
        return {name: topic.id for name, topic in self._topics.items()}

    def add(self, positions: Mapping[Place, int]) -> None:
        """Read these partitions, too, each from an offset on."""
        for place, offset in positions.items():
            self._revision += 1
            self._partitions[place] = _Partition(Position(offset), revision=self._revision)
            self.stale.add(place[0])

    def remove(self, places: Iterable[Place]) -> None:
        """Read these partitions no more. Answers about them are ignored."""
        for place in places:
            self._partitions.pop(place, None)
        topics = {topic for topic, _ in self._partitions}
        self.stale &= topics
        self._topics = {name: each for name, each in self._topics.items() if name in topics}

    def by_node(self, now: float) -> dict[int, dict[Place, Position]]:
        """Return what to ask each broker for."""
        nodes: dict[int, dict[Place, Position]] = {}
        for place, each in self._partitions.items():
            node = each.replica if each.replica >= 0 and now < each.replica_until else each.leader
            if node >= 0:
                nodes.setdefault(node, {})[place] = each.position
        return nodes

    def revisions(self, places: Iterable[Place]) -> dict[Place, int]:
        """Return what `take` needs of the partitions that are asked for now."""
        return {place: self._partitions[place].revision for place in places}

    def lose(self, node: int) -> None:
        """A broker is not reached: look up who leads its partitions now."""
        for (topic, _), each in self._partitions.items():
            if node in (each.leader, each.replica):
                each.replica = -1
                self.stale.add(topic)

    def take_metadata(self, response: MetadataResponse, now: float) -> None:
        """Take what a broker says of the stale topics. Raises `ConnectorError`, `RetriableError`."""
        for name in sorted(self.stale):
            topic = response.topics.get(name, TopicMetadata(_E.UNKNOWN_TOPIC_OR_PARTITION))
            if topic.error:
                self._note_missing(name, topic.error, now)
                continue
            earlier = self._topics.get(name)
            if earlier is not None and NO_TOPIC_ID != earlier.id != topic.id:
                raise ConnectorError(
                    f"Topic {name} was deleted and created again while it was read: its records are others with old "
                    "offsets. To read it from its beginning, stop the connector, reset its offsets and resume it."
                )
            self._topics[name] = topic
            self._missing_since.pop(name, None)
            places = [place for place in self._partitions if place[0] == name]
            for place in places:
                self._take_leader(place, topic)
            if all(self._partitions[place].leader >= 0 for place in places):
                self.stale.discard(name)

    def _take_leader(self, place: Place, topic: TopicMetadata) -> None:
        one, number = self._partitions[place], place[1]
        one.leader = topic.leaders[number] if number < len(topic.leaders) else -1
        if one.leader >= 0:
            one.position = replace(one.position, leader_epoch=topic.epochs[number])

    def _note_missing(self, name: str, code: int, now: float) -> None:
        if code == _E.TOPIC_AUTHORIZATION_FAILED:
            raise _permission_error(name)
        if now - self._missing_since.setdefault(name, now) < _MISSING_S or code in _PASSING:
            return
        del self._missing_since[name]
        raise RetriableError(f"Topic {name} cannot be read: {name_of(code)}. {NO_TOPIC}")

    def take(self, place: Place, revision: int, answer: FetchedPartition, node: int, now: float) -> list[Fetched]:
        """Take what a broker returned for a partition. Returns the committed batches; raises as `BatchReader.poll`.

        revision: as it was when the partition was asked for.
        """
        one = self._partitions.get(place)
        if one is None or one.revision != revision:
            return []
        if answer.error or answer.diverges:
            self._take_error(place, one, answer, node)
            return []
        if answer.preferred >= 0:
            one.replica, one.replica_until = answer.preferred, now + _PREFERRED_S
        return self._take_records(place, one, answer)

    def _take_records(self, place: Place, one: _Partition, answer: FetchedPartition) -> list[Fetched]:
        try:
            batches = list(split_batches(*place, answer.records, one.position.offset, self._most_bytes))
        except ValueError as error:
            raise ConnectorError(f"What the broker returned of {place[0]}-{place[1]} is damaged: {error}") from error
        if self._checks:
            for each in batches:
                each.check()
        if batches:
            newest = batches[-1]
            one.position = Position(newest.last + 1, one.position.leader_epoch, newest.leader_epoch)
            self._partitions[place] = self._partitions.pop(place)  # others are asked for first
        return select_committed(batches, answer.aborted)

    def _take_error(self, place: Place, one: _Partition, answer: FetchedPartition, node: int) -> None:
        topic, partition = place
        if answer.diverges:
            raise ConnectorError(
                f"Partition {partition} of topic {topic} was truncated before offset {one.position.offset}, up to "
                "which it was read: a broker without its newest records became its leader (unclean leader election). "
                "Its current records are others with old offsets. Compare both sides, then restart the task."
            )
        if answer.error == _OUT_OF_RANGE:
            if node == one.replica != one.leader:
                one.replica = -1  # only the leader knows for certain
                return
            self.remove([place])
            raise OutOfRange(place, one.position.offset)
        if answer.error in _MOVED:
            one.replica = -1
            self.stale.add(topic)
        elif answer.error == _E.TOPIC_AUTHORIZATION_FAILED:
            raise _permission_error(topic)
        elif answer.error not in _PASSING:
            raise RetriableError(f"Topic {topic} cannot be read: {name_of(answer.error)} in partition {partition}")


def _permission_error(topic: str) -> ConnectorError:
    return ConnectorError(f"Topic {topic} cannot be read: TOPIC_AUTHORIZATION_FAILED. {NOT_ALLOWED}")
