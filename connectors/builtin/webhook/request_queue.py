"""Requests from their arrival to their answers: a bounded queue, and the senders that wait for each commit.

Requests arrive on the listener's thread. The task's thread takes them, and reports when they are committed. One lock
guards both, and the window of keys.
"""

import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from ringfence.connectors.builtin.webhook.idempotency_keys import KeyPage, KeyWindow

AGAIN_SECONDS: Final = 1
"""The value of Retry-After."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to the sender. again: seconds after which to retry, 0: never."""

    status: int
    text: str
    again: int = 0


ACCEPTED: Final = Answer(200, "accepted")
DUPLICATE: Final = Answer(200, "duplicate")
FULL: Final = Answer(503, "Too many requests are waiting for their commit. Send the request again.", AGAIN_SECONDS)
NO_ROOM: Final = Answer(503, "The window of idempotency keys is full. Send the request again later.", 60)
STOPPED: Final = Answer(503, "The task is stopping before the request is committed. Send it again.", AGAIN_SECONDS)
REPLAYED: Final = Answer(
    409, "This body was received under another idempotency key, and the signature covers the body alone."
)
REPLAY_WAITS: Final = Answer(503, "The same body waits under another idempotency key.", AGAIN_SECONDS)
TOO_LARGE: Final = Answer(413, "The record of this request would be larger than its topic accepts.")
TOO_MANY_HEADERS: Final = Answer(431, "The headers are too large.")
UNCONVERTIBLE: Final = Answer(422, "The connector cannot make a record of this request.")
UNCONVERTIBLE_NOW: Final = Answer(503, "The connector cannot make a record of this request at the moment.", 5)
FAILED: Final = Answer(500, "The task could not read the request.")
TOO_LATE: Final = Answer(503, "The request is not committed yet. Send it again.", AGAIN_SECONDS)


Tell = Callable[[Answer], None]


@dataclass(eq=False, slots=True)
class Ticket:
    """One waiting request, with all its senders. key, digest: "" and None without an idempotency key. body_digest: None
    unless the same body must not come under another key.
    """

    value: object
    headers: tuple[tuple[str, str], ...]
    size: int
    at_ms: int
    key: str
    digest: bytes | None
    body_digest: bytes | None = None
    waiting: list[Tell] = field(default_factory=list)
    is_taken: bool = False

    @property
    def digests(self) -> list[bytes]:
        """What is remembered of it."""
        return [each for each in (self.digest, self.body_digest) if each is not None]


class RequestQueue:
    """The requests of one plugin instance. Each waiting sender gets exactly one answer; 2xx only for what
    is committed.
    """

    def __init__(self, window: KeyWindow, *, most: int, most_bytes: int, most_keys: int) -> None:
        self._window = window
        self._most = most
        self._most_bytes = most_bytes
        self._most_keys = most_keys
        self._lock = threading.Lock()
        self._arrived = threading.Condition(self._lock)
        self._queue: deque[Ticket] = deque()
        self._open_tickets: list[Ticket] = []
        self._pending: dict[bytes, Ticket] = {}
        """By each digest that is remembered once it is committed."""
        self._bytes = self._count = 0
        self._closed = False
        self.duplicates = self.refused = self.replays = self.unconvertible = 0

    @property
    def waiting(self) -> int:
        """The number of requests that are not committed yet."""
        return self._count

    def offer(self, ticket: Ticket, tell: Tell, now_ms: int) -> Answer | Ticket:
        """Return an immediate answer, or the ticket that `tell` waits for: an earlier one if its key is already
        waiting.
        """
        with self._lock:
            if self._closed:
                return STOPPED
            if ticket.digest is not None:
                if self._window.knows(ticket.digest, now_ms):
                    self.duplicates += 1
                    return DUPLICATE
                pending = self._pending.get(ticket.digest)
                if pending is not None:
                    self.duplicates += 1
                    pending.waiting.append(tell)
                    return pending
                replay = self._find_replay(ticket, now_ms)
                if replay is not None:
                    self.replays += 1
                    return replay
                if len(self._window) + len(self._pending) >= self._most_keys * len(ticket.digests):
                    self.refused += 1
                    return NO_ROOM
            if self._count >= self._most or self._bytes + ticket.size > self._most_bytes:
                self.refused += 1
                return FULL
            self._pending.update(dict.fromkeys(ticket.digests, ticket))
            ticket.waiting.append(tell)
            self._queue.append(ticket)
            self._count += 1
            self._bytes += ticket.size
            self._arrived.notify()
            return ticket

    def _find_replay(self, ticket: Ticket, now_ms: int) -> Answer | None:
        """Return the answer to a body that is known under another key; None if it is new."""
        if ticket.body_digest is None:
            return None
        if self._window.knows(ticket.body_digest, now_ms):
            return REPLAYED
        return REPLAY_WAITS if ticket.body_digest in self._pending else None

    def withdraw(self, ticket: Ticket, tell: Tell) -> None:
        """Stop waiting with `tell`. A request without waiting senders that was not taken yet is dropped."""
        with self._lock:
            if tell in ticket.waiting:
                ticket.waiting.remove(tell)
            if not ticket.waiting and not ticket.is_taken and ticket in self._queue:
                self._queue.remove(ticket)
                self._release(ticket)

    def take(self, most: int, seconds: float) -> list[Ticket]:
        """Return the next requests, in the order of arrival; none after `seconds`."""
        with self._lock:
            if not self._queue:
                self._arrived.wait(seconds)
            tickets = [self._queue.popleft() for _ in range(min(most, len(self._queue)))]
            for ticket in tickets:
                ticket.is_taken = True
            self._open_tickets += tickets
            return tickets

    def write_keys(self, tickets: list[Ticket], now_ms: int) -> tuple[list[KeyPage], Mapping[str, object]]:
        """Return the offsets for these requests' keys and for expired pages, and the head after them."""
        with self._lock:
            self._window.forget(now_ms)
            pages = self._window.expire(now_ms)
            pages += self._window.write([digest for each in tickets for digest in each.digests], now_ms)
            return pages, self._window.head

    @property
    def head(self) -> Mapping[str, object]:
        """The source offset that lists the pages as they are written now."""
        with self._lock:
            return self._window.head

    def refuse(self, ticket: Ticket, answer: Answer) -> list[tuple[Tell, Answer]]:
        """Record that a taken request becomes no record. Returns the answers to send; its key stays unknown."""
        with self._lock:
            self.unconvertible += 1
            self._open_tickets.remove(ticket)
            self._release(ticket)
            waiting, ticket.waiting = ticket.waiting, []
            return [(tell, answer) for tell in waiting]

    def commit(self) -> list[tuple[Tell, Answer]]:
        """Record that all taken requests are committed. Returns the answers to send."""
        with self._lock:
            self._window.commit()
            return self._answer_taken(ACCEPTED)

    def close(self) -> list[tuple[Tell, Answer]]:
        """Record that this instance commits nothing more. Returns the answers to send."""
        with self._lock:
            self._closed = True
            self._open_tickets += self._queue
            self._queue.clear()
            return self._answer_taken(STOPPED)

    def _answer_taken(self, answer: Answer) -> list[tuple[Tell, Answer]]:
        answers = []
        for ticket in self._open_tickets:
            self._release(ticket)
            # The first sender made the record; the others sent the same key while it waited.
            answers += [
                (tell, DUPLICATE if number and answer is ACCEPTED else answer)
                for number, tell in enumerate(ticket.waiting)
            ]
            ticket.waiting = []
        self._open_tickets = []
        return answers

    def _release(self, ticket: Ticket) -> None:
        self._count -= 1
        self._bytes -= ticket.size
        for digest in ticket.digests:
            self._pending.pop(digest, None)
