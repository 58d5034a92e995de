"""The open connections of one client to brokers, on the thread that calls.

A request without an answer is given up after a while, together with its connection: answers come in order.
"""

import socket
import time
from collections.abc import Callable, Iterator
from itertools import chain
from math import inf
from selectors import EVENT_READ, EVENT_WRITE, DefaultSelector

from ringfence.fencing.transactions.broker_connection import Access, Address, BrokerConnection, ConnectionBroken
from ringfence.fencing.transactions.messages import Request, Response

TakeAnswer = Callable[[int, Response, float], None]
"""Called with the number of a request, its answer, and the time."""
NoteLost = Callable[[BrokerConnection, str], None]
"""Called with a connection that has ended, and why. What is in flight there has no answer."""


class Connections:
    """At most one for each address, beside those that only take their last answers."""

    def __init__(
        self,
        access: Access,
        request_s: float,
        take_answer: TakeAnswer,
        note_lost: NoteLost,
        note_opened: Callable[[BrokerConnection], None] = lambda _: None,
        woken: socket.socket | None = None,
    ) -> None:
        """request_s: after which a request without an answer is given up. woken: ends a wait when it has bytes."""
        self.looked_at = 0.0
        """When the network was looked at last."""
        self._access = access
        self._request_s = request_s
        self._take_answer = take_answer
        self._note_lost = note_lost
        self._note_opened = note_opened
        self._woken = woken
        self._selector = DefaultSelector()
        if woken is not None:
            self._selector.register(woken, EVENT_READ)
        self._give_up_at = 0.0
        self._by_address: dict[Address, BrokerConnection] = {}
        self._retiring: set[BrokerConnection] = set()

    def __iter__(self) -> Iterator[BrokerConnection]:
        """Yield those that take requests."""
        return iter(self._by_address.values())

    def open(self, address: Address, now: float) -> BrokerConnection:
        """Return the connection to an address. Raises `ConnectionBroken`; `Fatal` for a login that is refused."""
        connection = self._by_address.get(address)
        if connection is not None and connection.is_worn_out(now):
            del self._by_address[address]
            self._retire(connection)
            connection = None
        if connection is None:
            connection = self._by_address[address] = BrokerConnection(address, self._access)
            self._selector.register(connection, EVENT_READ, connection)
            connection.events = EVENT_READ
            self._note_opened(connection)
        return connection

    def send(self, connection: BrokerConnection, number: int, request: Request, now: float, version: int) -> bool:
        """Send a request, or as much of it as the kernel takes now. Return False if the connection is lost."""
        try:
            connection.send(number, request, now, version)
            self._watch(connection)
        except ConnectionBroken as broken:
            self._lose(connection, str(broken))
            return False
        return True

    def wait(self, seconds: float) -> None:
        """Wait at most so long for the network, and take what has arrived."""
        ready = self._selector.select(max(0.0, seconds))
        now = self.looked_at = time.monotonic()
        for key, events in ready:
            if key.data is None:
                assert self._woken is not None
                self._woken.recv(4096)
            elif not key.data.closed:  # by what was served before it
                self._serve(key.data, events, now)
        if now >= self._give_up_at:
            self.give_up_slow(now)

    def next_give_up(self) -> float:
        """Return when the next request is to be given up, infinite for never. From then on, `wait` gives it up."""
        ends = [each.in_flight[0].at + self._request_s for each in self._all() if each.in_flight]
        self._give_up_at = min(ends, default=inf)
        return self._give_up_at

    def give_up_slow(self, now: float) -> None:
        """Lose the connections whose oldest request has waited for too long."""
        for each in self._all():
            if each.in_flight and now >= each.in_flight[0].at + self._request_s:
                self._lose(each, f"{each.address[0]}:{each.address[1]} has not answered for {self._request_s:g} s")

    def close(self) -> None:
        """End all of them. What is on its way may still arrive."""
        self._selector.close()
        for each in self._all():
            each.close()
        self._by_address.clear()
        self._retiring.clear()

    def _all(self) -> Iterator[BrokerConnection]:
        return chain(list(self._by_address.values()), list(self._retiring))

    def _serve(self, connection: BrokerConnection, events: int, now: float) -> None:
        try:
            if events & EVENT_WRITE:
                connection.write()
            if events & EVENT_READ:  # also errors, and the end
                for number, answer in connection.read():
                    if answer.throttle_ms > 0:
                        connection.extend(now + answer.throttle_ms / 1000)
                    self._take_answer(number, answer, now)
            self._watch(connection)
        except ConnectionBroken as broken:
            self._lose(connection, str(broken))

    def _watch(self, connection: BrokerConnection) -> None:
        if self._retiring and connection in self._retiring and not connection.in_flight:
            self._retiring.discard(connection)
            self._drop(connection)
            return
        events = EVENT_READ | EVENT_WRITE if connection.wants_to_write else EVENT_READ
        if connection.events != events:
            self._selector.modify(connection, events, connection)
            connection.events = events

    def _retire(self, connection: BrokerConnection) -> None:
        """Let the connection take its answers, and close it then."""
        if connection.in_flight:
            self._retiring.add(connection)
        else:
            self._drop(connection)

    def _lose(self, connection: BrokerConnection, why: str) -> None:
        if self._by_address.get(connection.address) is connection:
            del self._by_address[connection.address]
        self._retiring.discard(connection)
        self._drop(connection)
        self._note_lost(connection, why)

    def _drop(self, connection: BrokerConnection) -> None:
        self._selector.unregister(connection)
        connection.close()
