"""Fetches record batches on the thread that asks for them. An answer that is on its way arrives beside other work.

Each broker has one request at a time, and gets the next one as soon as its answer is taken: what it returns then waits
in the kernel until `poll` is called again.
"""

import logging
import random
import time
from collections.abc import Mapping, Sequence
from typing import Final

from ringfence.connectors.api import ConnectorError, RetriableError
from ringfence.connectors.api.fetching import NotFetchable, OutOfRange, Place
from ringfence.connectors.sdk import egress
from ringfence.fencing.backoff import Backoff
from ringfence.fencing.errors import Fatal
from ringfence.fencing.fetching.fetch_request import READ_COMMITTED, READ_UNCOMMITTED, Fetch, FetchResponse
from ringfence.fencing.fetching.fetch_state import FetchState
from ringfence.fencing.fetching.fetched_batches import Fetched
from ringfence.fencing.transactions.broker_connection import Address, BrokerConnection, ConnectionBroken, LookUp
from ringfence.fencing.transactions.connections import Connections
from ringfence.fencing.transactions.messages import Metadata, MetadataResponse
from ringfence.fencing.transactions.settings import access_of, addresses_of

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
_TELLS_AFTER: Final = 12
"""Failures in a row: some seconds."""


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
        self._busy: set[int] = set()  # nodes that have a request
        self._failures: dict[int, int] = {}
        self._not_before: dict[int, float] = {}
        self._looks_up = False
        self._number = 0
        self._ready: list[Fetched] = []
        self._errors: list[Exception] = []

    @property
    def positions(self) -> dict[Place, int]:
        return self._state.positions

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
                return []
            self._connections.wait(min(ends_at, self._next_time(now)) - now)

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
                self._busy.add(node)

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
        self._busy.discard(node)
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
            self._busy.discard(node)
            self._state.lose(node)
        if not self._failures.get(node):
            log.info("A broker of the source is not reached, and tried again: %s", why)
        self._pause(node, _UNREACHED, now)
        if node == self._ANY and not self._failures[node] % _TELLS_AFTER:
            self._errors.append(RetriableError(f"No broker of the source cluster is reached: {why}"))
