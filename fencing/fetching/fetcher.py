"""Fetches from the leaders of partitions, on the thread that asks. An answer on its way arrives beside other work.

Each broker has one request at a time, and gets the next one as soon as its answer is taken: what it returns then waits
in the kernel until `poll` is called again. What becomes of the bytes, and what an error says, is up to the reader:
`partition_reader.py` reads a source, `raw_reader.py` topics of ours.
"""

import logging
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Final, Generic, TypeVar

from ringfence.connectors.api import ConnectorError
from ringfence.connectors.api.fetching import NotFetchable, OutOfRange, Place
from ringfence.connectors.sdk import egress
from ringfence.fencing.backoff import Backoff
from ringfence.fencing.errors import Fatal, FencingError
from ringfence.fencing.fetching.fetched_batches import READ_COMMITTED, Fetch, FetchedPartition, FetchResponse, Position
from ringfence.fencing.transactions.broker_connection import (
    Access,
    Address,
    BrokerConnection,
    ConnectionBroken,
    Connections,
)
from ringfence.fencing.transactions.error_codes import ErrorCode
from ringfence.fencing.transactions.messages import NO_TOPIC_ID, Metadata, MetadataResponse, TopicMetadata

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


class ProblemKind(Enum):
    """Why reading does not go on, or not for now."""

    NO_TOPIC = auto()
    """Brokers have not known the topic for some seconds."""
    NOT_ALLOWED = auto()
    CREATED_AGAIN = auto()
    """The topic has another id than before."""
    TRUNCATED = auto()
    """The leader's log has other records before the position."""
    OUT_OF_RANGE = auto()
    """The leader does not have the position. The partition is not read any more, until it is added again."""
    REFUSED = auto()
    """An error of the broker that nothing is known to help against."""
    SILENT = auto()
    """A broker owes an answer."""
    UNREACHED = auto()
    """No broker can be connected to."""
    DENIED = auto()
    """A login was refused, or no connection may go there."""
    TOO_OLD = auto()
    """A broker does not know the requests."""


@dataclass(frozen=True, slots=True)
class Problem:
    """text: of what has failed; code: Kafka's error code."""

    kind: ProblemKind
    topic: str = ""
    partition: int = -1
    offset: int = -1
    code: int = 0
    text: str = ""


MakeError = Callable[[Problem], Exception]
"""Returns the reader's error for a problem: one of `READER_ERRORS`."""
READER_ERRORS: Final = (ConnectorError, OutOfRange, NotFetchable, FencingError)
_T = TypeVar("_T")
TakeRecords = Callable[[Place, Position, FetchedPartition], tuple[list[_T], Position]]
"""Returns what the reader makes of an answer's bytes, and the next position. May raise the reader's errors."""


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


class FetchState(Generic[_T]):
    """The partitions of one reader, in the order in which leaders are asked for them: one that gave records is last."""

    def __init__(self, take_records: TakeRecords[_T], make_error: MakeError) -> None:
        self._take_records = take_records
        self.make_error = make_error
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

    def is_current(self, place: Place, revision: int) -> bool:
        """Return whether a partition is still read from the position of this revision on."""
        one = self._partitions.get(place)
        return one is not None and one.revision == revision

    def lose(self, node: int) -> None:
        """A broker is not reached: look up who leads its partitions now."""
        for (topic, _), each in self._partitions.items():
            if node in (each.leader, each.replica):
                each.replica = -1
                self.stale.add(topic)

    def take_metadata(self, response: MetadataResponse, now: float) -> None:
        """Take what a broker says of the stale topics. Raises the reader's errors."""
        for name in sorted(self.stale):
            topic = response.topics.get(name, TopicMetadata(_E.UNKNOWN_TOPIC_OR_PARTITION))
            if topic.error:
                self._note_missing(name, topic.error, now)
                continue
            earlier = self._topics.get(name)
            if earlier is not None and NO_TOPIC_ID != earlier.id != topic.id:
                raise self.make_error(Problem(ProblemKind.CREATED_AGAIN, name))
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
            raise self.make_error(Problem(ProblemKind.NOT_ALLOWED, name, code=code))
        if now - self._missing_since.setdefault(name, now) < _MISSING_S or code in _PASSING:
            return
        del self._missing_since[name]
        raise self.make_error(Problem(ProblemKind.NO_TOPIC, name, code=code))

    def take(self, place: Place, revision: int, answer: FetchedPartition, node: int, now: float) -> list[_T]:
        """Take what a broker returned for a partition. Returns what `take_records` made of it; raises the reader's
        errors.

        revision: as it was when the partition was asked for.
        """
        if not self.is_current(place, revision):
            return []
        one = self._partitions[place]
        if answer.error or answer.diverges:
            self._take_error(place, one, answer, node)
            return []
        if answer.preferred >= 0:
            one.replica, one.replica_until = answer.preferred, now + _PREFERRED_S
        items, position = self._take_records(place, one.position, answer)
        if position != one.position:
            one.position = position
            self._partitions[place] = self._partitions.pop(place)  # others are asked for first
        return items

    def _take_error(self, place: Place, one: _Partition, answer: FetchedPartition, node: int) -> None:
        topic, code = place[0], answer.error
        if answer.diverges:
            raise self.make_error(Problem(ProblemKind.TRUNCATED, *place, one.position.offset))
        if code == _OUT_OF_RANGE:
            if node == one.replica != one.leader:
                one.replica = -1  # only the leader knows for certain
                return
            self.remove([place])
            raise self.make_error(Problem(ProblemKind.OUT_OF_RANGE, *place, one.position.offset, code))
        if code in _MOVED:
            one.replica = -1
            self.stale.add(topic)
        elif code not in _PASSING:
            denied = code == _E.TOPIC_AUTHORIZATION_FAILED
            kind = ProblemKind.NOT_ALLOWED if denied else ProblemKind.REFUSED
            raise self.make_error(Problem(kind, *place, one.position.offset, code))


log = logging.getLogger(__name__)

_BYTES: Final = 8 * 1024 * 1024
_PARTITION_BYTES: Final = 2 * 1024 * 1024
_LEAST_BYTES: Final = 1024 * 1024
_UNREACHED: Final = Backoff(0.02, 1.0)
_REFUSED: Final = Backoff(0.01, 0.5)
_REPORTS_AFTER: Final = 8
"""Failures in a row: some seconds."""
_SILENT_S: Final = 5.0
"""A broker answers each request after two seconds at the latest, even if there is nothing new."""


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """isolation: `READ_COMMITTED` or `READ_UNCOMMITTED`. wait_ms: how long a leader waits for `min_bytes`. bytes: of
    the answers that may be on their way or handed over at once, of all brokers; partition_bytes: of each partition.
    request_s: after which a request is given up.
    """

    isolation: bytes
    wait_ms: int = 500
    min_bytes: int = 1
    bytes: int = _BYTES
    partition_bytes: int = _PARTITION_BYTES
    request_s: float = 30.5
    rack: str = ""


class Fetcher(Generic[_T]):
    """For one thread."""

    def __init__(
        self, state: FetchState[_T], bootstrap: Sequence[Address], access: Access, settings: FetchSettings
    ) -> None:
        self._state = state
        self._bootstrap = bootstrap
        self._settings = settings
        self._addresses: dict[int, Address] = {}
        self._connections = Connections(access, settings.request_s, self._take, self._note_lost)
        self._pending: dict[int, tuple[int, dict[Place, int]]] = {}
        """By the number of the request, the node and the revisions of its partitions."""
        self._busy: dict[int, float] = {}  # nodes that have a request, and since when
        self._failures: dict[int, int] = {}
        self._not_before: dict[int, float] = {}
        self._looks_up = False
        self._noted_silence_at = float("-inf")
        self._number = 0
        self._ready: list[tuple[Place, _T]] = []
        self._errors: list[Exception] = []
        self.empty_up_to: dict[Place, int] = {}
        """Partitions whose leader last returned nothing at all, of no partition, with the offset up to which it has
        nothing: the high watermark, or the last stable offset.
        """

    @property
    def positions(self) -> dict[Place, int]:
        """Where each partition is read next, by what `poll` has returned or waits with."""
        return self._state.positions

    @property
    def has_answered(self) -> bool:
        """Whether the brokers of all partitions answer: then a `poll` without a result means that there is nothing."""
        return not self._failures and not self._state.stale and self._silence(time.monotonic()) < _SILENT_S

    def _silence(self, now: float) -> float:
        """Return for how many seconds a broker has owed an answer."""
        return max((now - since for since in self._busy.values()), default=0.0)

    def add(self, positions: Mapping[Place, int]) -> None:
        """Read these partitions, too. positions: the offsets of the first records."""
        self._state.add(positions)
        for place in positions:
            self.empty_up_to.pop(place, None)

    def remove(self, places: Iterable[Place]) -> None:
        """Read these partitions no more."""
        left_out = {*places}
        self._state.remove(left_out)
        self._ready = [each for each in self._ready if each[0] not in left_out]

    def poll(self, seconds: float) -> list[_T]:
        """Return what arrives next, in order for each partition; nothing after `seconds` without any. Raises the
        reader's errors.
        """
        return [each for _, each in self.poll_places(seconds)]

    def poll_places(self, seconds: float) -> list[tuple[Place, _T]]:
        """As `poll`, each with its partition."""
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
        """Raise an error every few seconds while a broker is silent: each makes the caller pause for longer."""
        silence = self._silence(now)
        if silence >= _SILENT_S and now - self._noted_silence_at >= _SILENT_S:
            self._noted_silence_at = now
            raise self._state.make_error(Problem(ProblemKind.SILENT, text=f"for {silence:.0f} s"))

    def close(self) -> None:
        self._connections.close()

    # Requests.

    _ANY: Final = -1
    """In place of a node, for what any broker answers."""

    def _send_due(self, now: float) -> None:
        if self._state.stale and not self._looks_up and self._may_ask(self._ANY, now):
            self._looks_up = self._send(self._ANY, Metadata(sorted(self._state.stale), creates=False), {}, now)
        settings = self._settings
        nodes = self._state.by_node(now)
        share = max(_LEAST_BYTES, settings.bytes // max(1, len(nodes)))
        for node, positions in nodes.items():
            if node in self._busy or not self._may_ask(node, now):
                continue
            ids = self._state.topic_ids
            request = Fetch(
                positions,
                {topic: ids[topic] for topic, _ in positions},
                settings.isolation,
                settings.wait_ms,
                settings.min_bytes,
                min(share, settings.bytes),
                settings.partition_bytes,
                settings.rack,
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
        except ConnectionBroken as broken:
            self._note_unreached(node, str(broken), now)
            return False
        except (Fatal, egress.EgressDenied) as error:
            raise self._state.make_error(Problem(ProblemKind.DENIED, text=str(error))) from error
        version = self._version_of(connection, request)
        self._number += 1
        self._pending[self._number] = node, revisions
        return self._connections.send(connection, self._number, request, now, version)

    def _version_of(self, connection: BrokerConnection, request: Fetch | Metadata) -> int:
        try:
            return connection.check_version(request)
        except Fatal as error:
            raise self._state.make_error(Problem(ProblemKind.TOO_OLD, text=str(error))) from error

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
        is_empty = not any(each.records for each in answer.partitions.values())
        for place, each in answer.partitions.items():
            failed |= bool(each.error)
            if place not in revisions:
                continue
            try:
                items = self._state.take(place, revisions[place], each, node, now)
            except READER_ERRORS as error:  # `poll` raises them
                self._errors.append(error)
                continue
            self._ready += [(place, item) for item in items]
            # Not if only this one is empty: the others may have left no room for its records.
            if is_empty and self._state.is_current(place, revisions[place]) and not each.error and not each.diverges:
                committed = self._settings.isolation == READ_COMMITTED
                self.empty_up_to[place] = each.stable if committed else each.high_watermark
        if failed:
            self._pause(node, _REFUSED, now)
        else:
            self._failures.pop(node, None)

    def _take_metadata(self, answer: MetadataResponse, now: float) -> None:
        self._addresses.update(answer.brokers)
        try:
            self._state.take_metadata(answer, now)
        except READER_ERRORS as error:  # `poll` raises them
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
            log.info("A broker is not reached, and tried again: %s", why)
        self._pause(node, _UNREACHED, now)
        if node == self._ANY and not self._failures[node] % _REPORTS_AFTER:
            self._errors.append(self._state.make_error(Problem(ProblemKind.UNREACHED, text=why)))
