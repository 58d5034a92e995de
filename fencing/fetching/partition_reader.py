"""Fetches record batches on the thread that asks for them. An answer that is on its way arrives beside other work.

Each broker has one request at a time, and gets the next one as soon as its answer is taken: what it returns then waits
in the kernel until `poll` is called again.
"""

import logging
import random
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ringfence.connectors.api import ConnectorError, RetriableError
from ringfence.connectors.api.fetching import NO_TOPIC, NOT_ALLOWED, NotFetchable, OutOfRange, Place
from ringfence.connectors.sdk import egress
from ringfence.fencing.backoff import Backoff
from ringfence.fencing.errors import Fatal
from ringfence.fencing.fetching.fetched_batches import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    Fetch,
    Fetched,
    FetchedPartition,
    FetchResponse,
    Position,
    select_committed,
    split_batches,
)
from ringfence.fencing.transactions.broker_connection import (
    Address,
    BrokerConnection,
    ConnectionBroken,
    Connections,
    LookUp,
)
from ringfence.fencing.transactions.error_codes import ErrorCode, name_of
from ringfence.fencing.transactions.messages import NO_TOPIC_ID, Metadata, MetadataResponse, TopicMetadata
from ringfence.fencing.transactions.settings import access_of, addresses_of

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


log = logging.getLogger(__name__)

_BYTES: Final = 8 * 1024 * 1024
"""Of the answers that may be on their way or handed over at once, of all brokers."""
_PARTITION_BYTES: Final = 2 * 1024 * 1024
_LEAST_BYTES: Final = 1024 * 1024
_MOST_BYTES: Final = 48 * 1024 * 1024
"""A connection takes no larger answers than 64 MiB, and one may have a batch more than it should."""
_WAIT_MS: Final = 500
_REQUEST_MS: Final = 30_000
_UNREACHED: Final = Backoff(0.02, 1.0)
_REFUSED: Final = Backoff(0.01, 0.5)
_TELLS_AFTER: Final = 8
"""Failures in a row: some seconds."""
_SILENT_S: Final = 5.0
"""A broker answers each request after half a second at the latest, even if there is nothing new."""


class PartitionReader:
    """The framework's `BatchReader`, for one thread."""

    def __init__(self, settings: Mapping[str, str], isolation: str, most_bytes: int, look_up: LookUp) -> None:
        """settings: librdkafka's names. most_bytes: of a batch that may go whole. look_up: returns the addresses to
        which connections may go, or raises `EgressDenied`. Raises `Fatal`, OSError or ValueError for settings that
        cannot be used.
        """
        access = access_of(settings.get("client.id", "ringfence"), settings, look_up)
        self._bootstrap = addresses_of(settings.get("bootstrap.servers", ""))
        self._isolation = READ_COMMITTED if isolation == "read_committed" else READ_UNCOMMITTED
        self._min_bytes = int(settings.get("fetch.min.bytes", 1))
        self._most_answer_bytes = min(int(settings.get("fetch.max.bytes", _BYTES)), _MOST_BYTES)
        self._partition_bytes = min(int(settings.get("max.partition.fetch.bytes", _PARTITION_BYTES)), _MOST_BYTES)
        request_s = (int(settings.get("socket.timeout.ms", _REQUEST_MS)) + _WAIT_MS) / 1000
        self._rack = settings.get("client.rack", "")
        self._state = FetchState(most_bytes, checks=settings.get("check.crcs") == "true")
        self._addresses: dict[int, Address] = {}
        self._connections = Connections(access, request_s, self._take, self._note_lost)
        self._pending: dict[int, tuple[int, dict[Place, int]]] = {}
        """By the number of the request, the node and the revisions of its partitions."""
        self._busy: dict[int, float] = {}  # nodes that have a request, and since when
        self._failures: dict[int, int] = {}
        self._not_before: dict[int, float] = {}
        self._looks_up = False
        self._told_silence_at = float("-inf")
        self._number = 0
        self._ready: list[Fetched] = []
        self._errors: list[Exception] = []

    @property
    def positions(self) -> dict[Place, int]:
        return self._state.positions

    @property
    def has_answered(self) -> bool:
        return not self._failures and not self._state.stale and self._silence(time.monotonic()) < _SILENT_S

    def _silence(self, now: float) -> float:
        """Return for how many seconds a broker has owed an answer."""
        return max((now - since for since in self._busy.values()), default=0.0)

    def add(self, positions: Mapping[Place, int]) -> None:
        self._state.add(positions)

    def remove(self, places: Sequence[Place]) -> None:
        self._state.remove(places)
        self._ready = [each for each in self._ready if (each.topic, each.partition) not in set(places)]

    def poll(self, seconds: float) -> list[Fetched]:
        ends_at = time.monotonic() + seconds
        while True:
            now = time.monotonic()
            self._connections.give_up_slow(now)
            self._send_due(now)
            if self._ready:
                ready, self._ready = self._ready, []
                return ready
            if self._errors:
                raise self._errors.pop(0)
            if now >= ends_at:
                self._check_silence(now)
                return []
            self._connections.wait(min(ends_at, self._next_time(now)) - now)

    def _check_silence(self, now: float) -> None:
        """Raise `RetriableError` every few seconds while a broker is silent: each makes the caller pause for longer."""
        silence = self._silence(now)
        if silence >= _SILENT_S and now - self._told_silence_at >= _SILENT_S:
            self._told_silence_at = now
            raise RetriableError(f"A broker of the source cluster has not answered for {silence:.0f} s")

    def close(self) -> None:
        self._connections.close()

    # Requests.

    _ANY: Final = -1
    """In place of a node, for what any broker answers."""

    def _send_due(self, now: float) -> None:
        if self._state.stale and not self._looks_up and self._may_ask(self._ANY, now):
            self._looks_up = self._send(self._ANY, Metadata(sorted(self._state.stale), creates=False), {}, now)
        nodes = self._state.by_node(now)
        share = max(_LEAST_BYTES, self._most_answer_bytes // max(1, len(nodes)))
        for node, positions in nodes.items():
            if node in self._busy or not self._may_ask(node, now):
                continue
            ids = self._state.topic_ids
            request = Fetch(
                positions,
                {topic: ids[topic] for topic, _ in positions},
                self._isolation,
                _WAIT_MS,
                self._min_bytes,
                min(share, self._most_answer_bytes),
                self._partition_bytes,
                self._rack,
            )
            if self._send(node, request, self._state.revisions(positions), now):
                self._busy[node] = now

    def _may_ask(self, node: int, now: float) -> bool:
        return now >= self._not_before.get(node, 0.0)

    def _next_time(self, now: float) -> float:
        """Return when something is to be sent again, or given up."""
        times = [each for each in self._not_before.values() if each > now]
        return min(*times, self._connections.next_give_up(), now + 1.0)

    def _send(self, node: int, request: Fetch | Metadata, revisions: dict[Place, int], now: float) -> bool:
        """Return whether the request is on its way."""
        try:
            connection = self._connections.open(self._address_of(node), now)
            version = self._version_of(connection, request)
        except ConnectionBroken as broken:
            self._note_unreached(node, str(broken), now)
            return False
        except (Fatal, egress.EgressDenied) as error:
            raise ConnectorError(f"The source cluster cannot be read: {error}") from error
        self._number += 1
        self._pending[self._number] = node, revisions
        return self._connections.send(connection, self._number, request, now, version)

    @staticmethod
    def _version_of(connection: BrokerConnection, request: Fetch | Metadata) -> int:
        try:
            return connection.check_version(request)
        except Fatal as error:
            raise NotFetchable(str(error)) from error

    def _address_of(self, node: int) -> Address:
        if node != self._ANY:
            if node not in self._addresses:
                raise ConnectionBroken(f"broker {node} is not among those that the cluster has told")
            return self._addresses[node]
        open_ones = [each.address for each in self._connections if not each.in_flight]
        return random.choice(open_ones or [*self._bootstrap, *self._addresses.values()])  # noqa: S311

    # Answers.

    def _take(self, number: int, answer: object, now: float) -> None:
        node, revisions = self._pending.pop(number)
        if isinstance(answer, MetadataResponse):
            self._looks_up = False
            self._take_metadata(answer, now)
            return
        assert isinstance(answer, FetchResponse)
        self._busy.pop(node, None)
        if answer.throttle_ms > 0:
            self._not_before[node] = now + answer.throttle_ms / 1000
        failed = bool(answer.error)
        for place, each in answer.partitions.items():
            failed |= bool(each.error)
            if place not in revisions:
                continue
            try:
                self._ready += self._state.take(place, revisions[place], each, node, now)
            except (ConnectorError, OutOfRange, NotFetchable) as error:
                self._errors.append(error)
        if failed:
            self._pause(node, _REFUSED, now)
        else:
            self._failures.pop(node, None)

    def _take_metadata(self, answer: MetadataResponse, now: float) -> None:
        self._addresses.update(answer.brokers)
        try:
            self._state.take_metadata(answer, now)
        except ConnectorError as error:
            self._errors.append(error)
        if self._state.stale:
            self._pause(self._ANY, _REFUSED, now)
        else:
            self._failures.pop(self._ANY, None)

    def _pause(self, node: int, pauses: Backoff, now: float) -> None:
        failures = self._failures[node] = self._failures.get(node, 0) + 1
        self._not_before[node] = max(self._not_before.get(node, 0.0), now + pauses.pause(failures))

    # Failures.

    def _note_lost(self, connection: BrokerConnection, why: str) -> None:
        for pending in connection.in_flight:
            node, _ = self._pending.pop(pending.number)
            self._note_unreached(node, why, time.monotonic())

    def _note_unreached(self, node: int, why: str, now: float) -> None:
        if node == self._ANY:
            self._looks_up = False
        else:
            self._busy.pop(node, None)
            self._state.lose(node)
        if not self._failures.get(node):
            log.info("A broker of the source is not reached, and tried again: %s", why)
        self._pause(node, _UNREACHED, now)
        if node == self._ANY and not self._failures[node] % _TELLS_AFTER:
            self._errors.append(RetriableError(f"No broker of the source cluster is reached: {why}"))
