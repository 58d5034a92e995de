"""Runs a state machine over sockets, on the thread that calls: no thread of its own, so no hand-over for each request.

What is on its way goes on by itself: the kernel sends, brokers write. Answers are read when the owner calls again.
"""

import socket
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from math import inf
from selectors import EVENT_READ, EVENT_WRITE, DefaultSelector
from typing import Final

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import FencingError
from ringfence.fencing.transactions.broker_connection import Access, Address, BrokerConnection, ConnectionBroken
from ringfence.fencing.transactions.messages import V2
from ringfence.fencing.transactions.state_machine import StateMachine
from ringfence.fencing.transactions.steps import Outgoing

_LONGEST_WAIT_S: Final = 1.0
_FRESH_S: Final = 0.05
"""For so long after a look at the network, an open connection counts as open."""


class Driver:
    """Not shared between threads, except for `wake`."""

    def __init__(
        self,
        machine: StateMachine,
        bootstrap: Sequence[Address],
        access: Access,
        request_s: float,
        *,
        allows_v2: bool = True,
    ) -> None:
        """request_s: after which a request without an answer is given up, with its connection. allows_v2: whether to
        use transactions v2 where the brokers have them.
        """
        self.machine = machine
        self.last_trouble = ""
        """Why the last connection could not be made, or broke."""
        self.last_trouble_at = 0.0
        self._bootstrap = list(bootstrap)
        self._access = access
        self._request_s = request_s
        self._allows_v2 = allows_v2
        self._selector = DefaultSelector()
        self._looked_at = self._give_up_at = 0.0
        self._connections: dict[Address, BrokerConnection] = {}
        self._retiring: set[BrokerConnection] = set()
        self._waker, self._woken = socket.socketpair()
        self._woken.setblocking(False)
        self._selector.register(self._woken, EVENT_READ)
        self._turn = 0
        self._closed = False

    def run(self, done: Callable[[], bool], deadline: Deadline) -> bool:
        """Send and receive until `done`, or until the deadline. Return which."""
        while True:
            now = time.monotonic()
            for each in self.machine.poll(now):
                self._dispatch(each, now)
            if done():
                return True
            if deadline.expired:
                return False
            self._wait(min(self._pause(now), deadline.remaining))

    def pump(self) -> None:
        """Take the answers that have arrived, and send what can be sent, without waiting."""
        self._wait(0.0)
        now = time.monotonic()
        for each in self.machine.poll(now):
            self._dispatch(each, now)

    def note_ends(self) -> None:
        """Notice the connections that have ended, before they are relied on, unless that was done a moment ago."""
        if time.monotonic() > self._looked_at + _FRESH_S:
            self.pump()

    def wake(self) -> None:
        """Let `run` ask at once whether it is done. For other threads."""
        try:
            self._waker.send(b"\0")
        except OSError:
            return  # it is full, or closed

    def close(self) -> None:
        """End all connections. What is on its way may still arrive. Later calls do nothing."""
        if self._closed:
            return
        self._closed = True
        self._selector.close()
        for each in self._all():
            each.close()
        self._connections.clear()
        self._retiring.clear()
        self._waker.close()
        self._woken.close()

    def _pause(self, polled_at: float) -> float:
        """Return how long to wait for the network. polled_at: what was due then is done; what is due since is not."""
        ends = [each.in_flight[0].at + self._request_s for each in self._all() if each.in_flight]
        self._give_up_at = min(ends, default=inf)
        at = self.machine.next_time(polled_at)
        until = self._give_up_at if at is None else min(at, self._give_up_at)
        return max(0.0, min(_LONGEST_WAIT_S, until - time.monotonic()))

    def _all(self) -> Iterator[BrokerConnection]:
        return chain(list(self._connections.values()), list(self._retiring))

    def _wait(self, seconds: float) -> None:
        ready = self._selector.select(seconds)
        now = self._looked_at = time.monotonic()
        for key, events in ready:
            if key.data is None:
                self._woken.recv(4096)
            elif not key.data.closed:  # by what was served before it
                self._serve(key.data, events, now)
        if now >= self._give_up_at:
            self._give_up_slow_requests(now)

    def _serve(self, connection: BrokerConnection, events: int, now: float) -> None:
        try:
            if events & EVENT_WRITE:
                connection.write()
            if events & EVENT_READ:  # also errors, and the end
                for number, answer in connection.read():
                    if answer.throttle_ms > 0:
                        connection.extend(now + answer.throttle_ms / 1000)
                    self.machine.take_answer(number, answer, now)
            self._watch(connection)
        except ConnectionBroken as broken:
            self._lose(connection, str(broken))

    def _give_up_slow_requests(self, now: float) -> None:
        for each in self._all():
            if each.in_flight and now >= each.in_flight[0].at + self._request_s:
                self._lose(each, f"{each.address[0]}:{each.address[1]} has not answered for {self._request_s:g} s")

    def _dispatch(self, outgoing: Outgoing, now: float) -> None:
        try:
            connection = self._connection_for(outgoing.node, now)
            version = connection.check_version(outgoing.request)
        except (ConnectionBroken, KeyError) as error:
            self._note_trouble(str(error))
            self.machine.note_unsent(outgoing.number, now)
            return
        except FencingError:
            self.machine.note_unsent(outgoing.number, now)
            raise
        try:
            connection.send(outgoing.number, outgoing.request, now, version)
            self._watch(connection)
        except ConnectionBroken as broken:
            self._lose(connection, str(broken))

    def _connection_for(self, node: int | None, now: float) -> BrokerConnection:
        if node is not None:
            return self._connect(self.machine.addresses[node], now)
        for address, connection in self._connections.items():
            if not connection.is_worn_out(now):
                return self._connections[address]
        places = list(dict.fromkeys((*self._bootstrap, *self.machine.addresses.values())))
        self._turn += 1
        return self._connect(places[self._turn % len(places)], now)

    def _connect(self, address: Address, now: float) -> BrokerConnection:
        connection = self._connections.get(address)
        if connection is not None and connection.is_worn_out(now):
            del self._connections[address]
            self._retire(connection)
            connection = None
        if connection is None:
            connection = self._connections[address] = BrokerConnection(address, self._access)
            self._selector.register(connection, EVENT_READ, connection)
            connection.events = EVENT_READ
            ranges = connection.broker.ranges
            has_versions = ranges.get(0, (0, 0))[1] >= 12 and ranges.get(26, (0, 0))[1] >= 5
            has_v2 = has_versions and connection.broker.transaction_version >= V2
            self.machine.use_version(has_v2 and self._allows_v2)
        return connection

    def _retire(self, connection: BrokerConnection) -> None:
        """Let the connection take its answers, and close it then."""
        if connection.in_flight:
            self._retiring.add(connection)
        else:
            self._drop(connection)

    def _watch(self, connection: BrokerConnection) -> None:
        if self._retiring and connection in self._retiring and not connection.in_flight:
            self._retiring.discard(connection)
            self._drop(connection)
            return
        events = EVENT_READ | EVENT_WRITE if connection.wants_to_write else EVENT_READ
        if connection.events != events:
            self._selector.modify(connection, events, connection)
            connection.events = events

    def _drop(self, connection: BrokerConnection) -> None:
        self._selector.unregister(connection)
        connection.close()

    def _note_trouble(self, why: str) -> None:
        self.last_trouble, self.last_trouble_at = why, time.monotonic()

    def _lose(self, connection: BrokerConnection, why: str) -> None:
        self._note_trouble(why)
        if self._connections.get(connection.address) is connection:
            del self._connections[connection.address]
        self._retiring.discard(connection)
        self._drop(connection)
        now = time.monotonic()
        for pending in connection.in_flight:
            if connection.has_left(pending):
                self.machine.note_unanswered(pending.number, now)
            else:
                self.machine.note_unsent(pending.number, now)
