"""Tokens: created once, shown once, stored as a digest. Their last use is a note: reading a page must not depend on a
writable database.
"""

import hashlib
import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterable
from typing import Final

from django.contrib.auth.models import User
from django.db import OperationalError

from ringfence.access.models import Token
from ringfence.access.principal import topics_of, verbs_of
from ringfence.fencing.clock import epoch_ms
from ringfence.fencing.name_patterns import EVERYTHING

_AGAIN_SECONDS: Final = 30.0

log = logging.getLogger(__name__)
_lock = threading.Lock()
_not_before = 0.0


def write_note(note: Callable[[], object]) -> None:
    """Write a note, or skip it if the database refuses writes: then no request tries again for half a minute."""
    global _not_before
    with _lock:
        if time.monotonic() < _not_before:
            return
    try:
        note()
    except OperationalError as error:
        log.warning("The time of last use is not stored, because the database refuses writes: %s", error)
        with _lock:
            _not_before = time.monotonic() + _AGAIN_SECONDS


PREFIX = "rf_"
_USED_EVERY_MS = 60_000


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def create(
    user: User,
    name: str,
    what: Iterable[str],
    pattern: str = EVERYTHING,
    seconds: float = 0,
    topics: Iterable[str] = (EVERYTHING,),
) -> tuple[Token, str]:
    """Create a token. Returns its row and its text, which is stored nowhere. seconds: until it expires, 0 for never.
    Raises `ValueError` for an invalid `what`.
    """
    rights = list(what)
    if not verbs_of(rights):
        raise ValueError("A token without a verb would be of no use: name a role or a verb")
    text, now = PREFIX + secrets.token_urlsafe(32), epoch_ms()
    row = Token.objects.create(
        user=user,
        name=name,
        digest=digest(text),
        hint=text[: len(PREFIX) + 4],
        what=" ".join(rights),
        pattern=pattern,
        topics=topics_of(topics),
        created_ms=now,
        expires_ms=now + int(seconds * 1000) if seconds else 0,
    )
    return row, text


def find(text: str) -> Token | None:
    """Return the valid token with that text, of an active user."""
    row = Token.objects.select_related("user").filter(digest=digest(text)).first()
    return row if row is not None and usable(row) else None


def usable(row: Token) -> bool:
    return row.state == "valid" and row.user.is_active


def record_use(row: Token) -> None:
    """Note that it was used, at most once a minute."""
    now = epoch_ms()
    if now - row.last_used_ms >= _USED_EVERY_MS:
        write_note(lambda: Token.objects.filter(pk=row.pk).update(last_used_ms=now))


def revoke(row: Token) -> None:
    """Revoke the token from its next request on. The row stays, for the audit trail."""
    Token.objects.filter(pk=row.pk, revoked_ms=0).update(revoked_ms=epoch_ms())
