"""Decides which connections a web process keeps, so that nobody closes its door by holding many.

Every connection is accepted. If there are too many, of one address or in all, one that is idle is dropped for it, and
then one whose request is still arriving: always of the address that has the most, and the one that has been so for the
longest time. A request on a connection beyond the limits is refused, unless it is a probe: those are always answered.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import Enum
from functools import lru_cache
from typing import Any, Final, Generic, TypeVar

from django.conf import settings

from ringfence.access.client_address import group_of

PROBES: Final = frozenset({"/health", "/health/live", "/health/ready", "/metrics"})

Connection = TypeVar("Connection")


class State(Enum):
    """In the order in which connections are dropped; one that is being answered never is."""

    IDLE = "nothing, or a part of a request's headers, has arrived"
    ARRIVING = "a request's body is arriving"
    ANSWERING = "a request is being answered"


class Door(Generic[Connection]):
    """The connections of one process, for one event loop."""

    def __init__(self, most: int, most_of_address: int, *, behind_proxy: bool = False) -> None:
        """behind_proxy: connections come from a proxy of ours, so only requests are counted by address."""
        self._most = most
        self._most_of_address = most_of_address
        self._behind_proxy = behind_proxy
        self._addresses: dict[Connection, str] = {}
        self._counts: Counter[str] = Counter()
        self._states: dict[State, dict[Connection, None]] = {state: {} for state in State}  # the oldest first
        self._requests: Counter[str] = Counter()
        self._extra: set[Connection] = set()
        """Connections beyond a limit, for which no other could be dropped."""

    def __len__(self) -> int:
        return len(self._addresses)

    def open(self, connection: Connection, address: str) -> Connection | None:
        """Add a connection. Returns one to close for it, None if there is room, or if all others are in use."""
        group = group_of(address)
        victim = None
        if self._is_full(group):
            victim = self._choose([group] if self._has_too_many(group) else self._counts)
            if victim is None:
                self._extra.add(connection)
            else:
                self.close(victim)
        self._addresses[connection] = group
        self._counts[group] += 1
        self._states[State.IDLE][connection] = None
        return victim

    def _has_too_many(self, group: str, more: int = 1) -> bool:
        return not self._behind_proxy and self._counts[group] + more > self._most_of_address

    def _is_full(self, group: str, more: int = 1) -> bool:
        return self._has_too_many(group, more) or len(self._addresses) + more > self._most

    def _choose(self, groups: Iterable[str]) -> Connection | None:
        allowed = set(groups)
        for state in (State.IDLE, State.ARRIVING):
            those = [each for each in self._states[state] if self._addresses[each] in allowed]
            if those:
                return max(those, key=lambda each: self._counts[self._addresses[each]])  # the first of several
        return None

    def change(self, connection: Connection, state: State) -> None:
        """Note what a connection does from now on."""
        if connection not in self._addresses or connection in self._states[state]:
            return
        for those in self._states.values():
            those.pop(connection, None)
        self._states[state][connection] = None

    def close(self, connection: Connection) -> None:
        """Remove a connection; one that is not known any more is fine."""
        group = self._addresses.pop(connection, None)
        self._extra.discard(connection)
        if group is None:
            return
        self._counts[group] -= 1
        if not self._counts[group]:
            del self._counts[group]
        for those in self._states.values():
            those.pop(connection, None)

    def refusal(self, connection: Connection, path: str, address: str) -> str:
        """Return why a request is not answered now, "" if it is. address: the client's, as the proxy names it."""
        if path in PROBES:
            return ""
        if connection in self._extra:
            if self._is_full(self._addresses[connection], more=0):
                return "Too many connections are in use. Send the request again."
            self._extra.discard(connection)
        if self._behind_proxy and self._requests[group_of(address)] >= self._most_of_address:
            return "Too many requests of your address are in progress. Send the request again."
        return ""

    @contextmanager
    def count_request(self, address: str) -> Iterator[None]:
        """Count a request of a client while the block runs."""
        group = group_of(address)
        self._requests[group] += 1
        try:
            yield
        finally:
            self._requests[group] -= 1
            if not self._requests[group]:
                del self._requests[group]


@lru_cache(maxsize=1)
def process_door() -> Door[Any]:
    """Return the door of this process."""
    limits = settings.REQUEST_LIMITS
    return Door(limits.connections, limits.connections_per_address, behind_proxy=settings.BEHIND_PROXY)
