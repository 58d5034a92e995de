"""Requests from their arrival to their answers: a bounded queue, the senders that wait for each commit, and the window
of idempotency keys that were delivered, with the source offsets that record them. Pure.

Requests arrive on the listener's thread. The task's thread takes them, and reports when they are committed. One lock
guards both, and the window of keys.

Keys are stored as digests in pages of some hundred. The newest page is written with each transaction until it is full;
a page is deleted once the window has passed its newest key. One more offset lists the pages, since source partitions
cannot be listed. Pages and records are in the same transaction, so a key is known if and only if its record is in
Kafka. Where a signature covers the body alone, the digests of bodies are kept in the same way, beside those of their
keys (`digest_of_body`).
"""

import base64
import hashlib
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeGuard

from ringfence.connectors.api import ConnectorError, OffsetReader, SourceOffset
from ringfence.connectors.builtin.webhook.settings import FIRST, HOOK, KEYS, NEXT, PAGE

PAGE_KEYS: Final = 256
_AT_ONCE: Final = 100
"""The maximum number of pages that one transaction deletes."""
_READ: Final = 1000

HEAD: Final[Mapping[str, object]] = {HOOK: KEYS}

KeyPage = tuple[Mapping[str, object], SourceOffset | None]


def page_of(number: int) -> dict[str, object]:
    """Return the source partition of a page."""
    return {HOOK: KEYS, PAGE: number}


def digest_of(key: str) -> bytes:
    """Return a key's digest: 16 bytes."""
    return hashlib.blake2b(key.encode(), digest_size=16).digest()


def digest_of_body(body: bytes) -> bytes:
    """Return a body's digest, which is never the one of a key."""
    return hashlib.blake2b(body, digest_size=16, person=b"body").digest()


class KeyWindow:
    """Not thread-safe. `knows` answers for what is committed; `write` is ahead of it."""

    def __init__(self, window_ms: int) -> None:
        self._window_ms = window_ms
        self._expiries: dict[bytes, int] = {}
        """The arrival time of each key, in the order of the first commits."""
        self._uncommitted: dict[bytes, int] = {}
        self._page: dict[bytes, int] = {}
        self._next = 0
        """The number that `_page` will get."""
        self._full: deque[tuple[int, int]] = deque()
        """Number and newest arrival of each older page."""

    def __len__(self) -> int:
        return len(self._expiries)

    @property
    def head(self) -> dict[str, object]:
        """The source offset that lists the pages."""
        first = self._full[0][0] if self._full else self._next
        return {FIRST: first, NEXT: self._next + bool(self._page)}

    def load(self, reader: OffsetReader) -> None:
        """Load what is committed. Raises `ConnectorError` for offsets that are not WebhookSource's."""
        head = reader.offset(HEAD)
        if not head:
            return
        first, after = check_head(head)
        for begin in range(first, after, _READ):
            numbers = range(begin, min(begin + _READ, after))
            for number, offset in zip(numbers, reader.offsets([page_of(number) for number in numbers]), strict=True):
                keys = check_page(offset) if offset else {}
                self._expiries.update(keys)
                self._full.append((number, max(keys.values(), default=0)))
        self._next = after

    def knows(self, digest: bytes, now_ms: int) -> bool:
        at = self._expiries.get(digest)
        return at is not None and now_ms - at < self._window_ms

    def write(self, digests: Sequence[bytes], now_ms: int) -> list[KeyPage]:
        """Return the offsets for keys whose records are about to be written: the pages that change. Changes `head`."""
        pages: list[KeyPage] = []
        self._page = {digest: at for digest, at in self._page.items() if now_ms - at < self._window_ms}
        for begin, end in self._split(len(digests)):
            for digest in digests[begin:end]:
                self._page[digest] = self._uncommitted[digest] = now_ms
            pages.append((page_of(self._next), {KEYS: _encode(self._page)}))
            if len(self._page) >= PAGE_KEYS:
                self._full.append((self._next, now_ms))
                self._page = {}
                self._next += 1
        return pages

    def _split(self, count: int) -> list[tuple[int, int]]:
        """Distribute `count` keys to the open page and the pages after it. Returns page numbers and counts."""
        spans, begin, room = [], 0, PAGE_KEYS - len(self._page)
        while begin < count:
            spans.append((begin, min(begin + room, count)))
            begin, room = begin + room, PAGE_KEYS
        return spans

    def expire(self, now_ms: int) -> list[KeyPage]:
        """Return offsets that delete the oldest pages, whose keys have all left the window."""
        passed: list[KeyPage] = []
        while self._full and now_ms - self._full[0][1] >= self._window_ms and len(passed) < _AT_ONCE:
            passed.append((page_of(self._full.popleft()[0]), None))
        return passed

    def commit(self) -> None:
        """Record that everything written is committed."""
        for digest in self._uncommitted:
            self._expiries.pop(digest, None)  # a key that was repeated after the window is a new one
        self._expiries.update(self._uncommitted)
        self._uncommitted.clear()

    def forget(self, now_ms: int) -> None:
        """Free the memory of keys that have left the window."""
        passed = []
        for digest, at in self._expiries.items():
            if now_ms - at < self._window_ms:
                break
            passed.append(digest)
        for digest in passed:
            del self._expiries[digest]


def _encode(page: Mapping[bytes, int]) -> dict[str, int]:
    return {base64.urlsafe_b64encode(digest)[:22].decode(): at for digest, at in page.items()}


def check_head(offset: SourceOffset) -> tuple[int, int]:
    """Return the number of the first page, and the one after the last. Raises `ConnectorError`."""
    first, after = offset.get(FIRST), offset.get(NEXT)
    if _is_number(first) and _is_number(after) and first <= after:
        return first, after
    raise ConnectorError(
        f"The offset {dict(offset)} must have the numbers of the first page of keys under {FIRST!r} and of the next "
        f"one under {NEXT!r}. Stop the connector and reset its offsets, which forgets the keys."
    )


def check_page(offset: SourceOffset) -> dict[bytes, int]:
    """Return the keys of a page. Raises `ConnectorError`."""
    keys = offset.get(KEYS)
    try:
        if isinstance(keys, Mapping) and all(_is_number(at) for at in keys.values()):
            return {_decode(str(text)): int(at) for text, at in keys.items()}
    except ValueError:
        pass
    raise ConnectorError(
        f"A page of keys must have the digests of keys with their times in ms under {KEYS!r}. Stop the connector and "
        "reset its offsets, which forgets the keys."
    )


def _decode(text: str) -> bytes:
    digest = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    if len(digest) != 16:
        raise ValueError("not a digest")
    return digest


def _is_number(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


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
