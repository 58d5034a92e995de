"""The window of idempotency keys: which were delivered, and the source offsets that record them. Pure.

Keys are stored as digests in pages of some hundred. The newest page is written with each transaction until it is full;
a page is deleted once the window has passed its newest key. One more offset lists the pages, since source partitions
cannot be listed. Pages and records are in the same transaction, so a key is known if and only if its record is in
Kafka. Where a signature covers the body alone, the digests of bodies are kept in the same way, beside those of their
keys (`digest_of_body`).
"""

import base64
import hashlib
from collections import deque
from collections.abc import Mapping, Sequence
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
