"""Tokens: created once, shown once, stored as a digest."""

import hashlib
import secrets
import time
from collections.abc import Iterable

from django.contrib.auth.models import User

from ringfence.access import last_use
from ringfence.access.models import Token
from ringfence.access.principal import topics_of, verbs_of
from ringfence.fencing.name_patterns import EVERYTHING

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
    text, now = PREFIX + secrets.token_urlsafe(32), int(time.time() * 1000)
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
    now = int(time.time() * 1000)
    if now - row.last_used_ms >= _USED_EVERY_MS:
        last_use.write(lambda: Token.objects.filter(pk=row.pk).update(last_used_ms=now))


def revoke(row: Token) -> None:
    """Revoke the token from its next request on. The row stays, for the audit trail."""
    Token.objects.filter(pk=row.pk, revoked_ms=0).update(revoked_ms=int(time.time() * 1000))
