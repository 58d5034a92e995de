"""Runs a state machine over sockets, on the thread that calls: no thread of its own, so no hand-over for each request.

What is on its way goes on by itself: the kernel sends, brokers write. Answers are read when the owner calls again.
"""

import socket
import time
from collections.abc import Callable, Sequence
from typing import Final

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import FencingError
from ringfence.fencing.transactions.broker_connection import (
    Access,
    Address,
    BrokerConnection,
    ConnectionBroken,
    Connections,
)
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
        self._allows_v2 = allows_v2
        self._waker, self._woken = socket.socketpair()
        self._woken.setblocking(False)
        self._connections = Connections(
            access, request_s, machine.take_answer, self._note_lost, self._note_opened, self._woken
        )
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
            self._connections.wait(min(self._pause(now), deadline.remaining))

    def pump(self) -> None:
        """Take the answers that have arrived, and send what can be sent, without waiting."""
        self._connections.wait(0.0)
        now = time.monotonic()
        for each in self.machine.poll(now):
            self._dispatch(each, now)

    def note_ends(self) -> None:
        """Notice the connections that have ended, before they are relied on, unless that was done a moment ago."""
        if time.monotonic() > self._connections.looked_at + _FRESH_S:
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
        self._connections.close()
        self._waker.close()
        self._woken.close()

    def _pause(self, polled_at: float) -> float:
        """Return how long to wait for the network. polled_at: what was due then is done; what is due since is not."""
        give_up_at, at = self._connections.next_give_up(), self.machine.next_time(polled_at)
        until = give_up_at if at is None else min(at, give_up_at)
        return max(0.0, min(_LONGEST_WAIT_S, until - time.monotonic()))

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
        self._connections.send(connection, outgoing.number, outgoing.request, now, version)

    def _connection_for(self, node: int | None, now: float) -> BrokerConnection:
        if node is not None:
            return self._connections.open(self.machine.addresses[node], now)
        for connection in self._connections:
            if not connection.is_worn_out(now):
                return connection
        places = list(dict.fromkeys((*self._bootstrap, *self.machine.addresses.values())))
        self._turn += 1
        return self._connections.open(places[self._turn % len(places)], now)

    def _note_opened(self, connection: BrokerConnection) -> None:
        ranges = connection.broker.ranges
        has_versions = ranges.get(0, (0, 0))[1] >= 12 and ranges.get(26, (0, 0))[1] >= 5
        has_v2 = has_versions and connection.broker.transaction_version >= V2
        self.machine.use_version(has_v2 and self._allows_v2)

    def _note_trouble(self, why: str) -> None:
        self.last_trouble, self.last_trouble_at = why, time.monotonic()

    def _note_lost(self, connection: BrokerConnection, why: str) -> None:
        self._note_trouble(why)
        now = time.monotonic()
        for pending in connection.in_flight:
            if connection.has_left(pending):
                self.machine.note_unanswered(pending.number, now)
            else:
                self.machine.note_unsent(pending.number, now)
