"""Login sessions. Django stores the content of a session, here with a hash of its key, so that a reader of the table,
or of a copy, cannot take over a session. The cookie holds Django's key, as usual.

A table of our own stores what users need to tell their sessions apart: a row for each, with its last use, so that
sessions expire and can be ended one by one. Another one has the sessions that single sign-on began: when the provider
logs a user out, they end here, too.
"""

import base64
import hashlib
import time
from typing import Any, Final

from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.sessions.backends import db
from django.contrib.sessions.base_session import AbstractBaseSession
from django.contrib.sessions.models import Session
from django.db import IntegrityError, transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.http import HttpRequest
from django.utils import timezone

from ringfence.access import tokens
from ringfence.access.client_address import address_of
from ringfence.access.models import LoginSession, ProviderSession, UsedLogoutToken, UsedState
from ringfence.access.oidc.claims import OLDEST_SECONDS, LogoutToken
from ringfence.access.principal import Principal
from ringfence.fencing.clock import epoch_ms


def hash_key(session_key: str) -> str:
    """Return the hash of a cookie's key in the table: 240 bits of its SHA-256, as much as the column holds."""
    return base64.urlsafe_b64encode(hashlib.sha256(session_key.encode()).digest()[:30]).decode()


class SessionStore(db.SessionStore):
    """Django's database sessions. The asynchronous methods are the synchronous ones on a thread."""

    def _get_session_from_db(self) -> AbstractBaseSession | None:
        key = self.session_key
        rows = self.model.objects.filter(session_key=hash_key(key or ""), expire_date__gt=timezone.now())
        row: AbstractBaseSession | None = rows.first() if key else None
        if row is None:
            self._session_key = None
        return row

    async def _aget_session_from_db(self) -> AbstractBaseSession | None:
        return await sync_to_async(self._get_session_from_db)()

    def exists(self, session_key: str) -> bool:
        return bool(super().exists(hash_key(session_key)))

    async def aexists(self, session_key: str) -> bool:
        return await sync_to_async(self.exists)(session_key)

    def create_model_instance(self, data: dict[str, Any]) -> AbstractBaseSession:
        row: AbstractBaseSession = super().create_model_instance(data)
        row.session_key = hash_key(row.session_key)
        return row

    async def acreate_model_instance(self, data: dict[str, Any]) -> AbstractBaseSession:
        return await sync_to_async(self.create_model_instance)(data)

    def delete(self, session_key: str | None = None) -> None:
        key = session_key or self.session_key
        if key is not None:
            super().delete(hash_key(key))

    async def adelete(self, session_key: str | None = None) -> None:
        await sync_to_async(self.delete)(session_key)


BACKGROUND: Final = "X-Ringfence-Background"
"""The header of a page's automatic requests: an open page alone does not keep a session alive."""
_BACKGROUND_PATHS = ("/ui/events",)
_NOTED_EVERY_MS = 60_000
_LONGEST_AGENT = 300


def has_ended(request: HttpRequest, now_ms: int | None = None) -> bool:
    """End this request's session if it was unused for longer than RINGFENCE_SESSION_IDLE_MINUTES, or began more than
    RINGFENCE_SESSION_HOURS ago. Returns whether it has ended."""
    row = LoginSession.objects.filter(key_hash=hash_key(request.session.session_key or "")).first()
    if row is None:
        return False
    now, idle_ms = now_ms or epoch_ms(), settings.SESSION_IDLE_MINUTES * 60_000
    idle = bool(idle_ms) and now - row.seen_ms > idle_ms
    if not idle and now - row.created_ms <= settings.SESSION_HOURS * 3_600_000:
        return False
    end(row)
    request.session.flush()
    return True


def note_use(request: HttpRequest, who: Principal, now_ms: int | None = None) -> None:
    """Note that the session was used, at most once a minute. Creates a missing row."""
    key, now = request.session.session_key, now_ms or epoch_ms()
    if key:
        tokens.write_note(lambda: _note(request, who, key, now))


def _note(request: HttpRequest, who: Principal, key: str, now: int) -> None:
    changed = LoginSession.objects.filter(key_hash=hash_key(key))
    if is_background(request):
        if changed.exists():
            return
    elif changed.filter(seen_ms__lte=now - _NOTED_EVERY_MS).update(seen_ms=now, address=address_of(request)):
        return
    LoginSession.objects.bulk_create(
        [
            LoginSession(
                key_hash=hash_key(key),
                account=who.name,
                via=who.via,
                address=address_of(request),
                agent=request.headers.get("User-Agent", "")[:_LONGEST_AGENT],
                created_ms=now,
                seen_ms=now,
            )
        ],
        ignore_conflicts=True,
    )


def is_background(request: HttpRequest) -> bool:
    """Return whether the page sent the request automatically."""
    return BACKGROUND in request.headers or request.path_info in _BACKGROUND_PATHS


def visible_to(who: Principal, everybody: bool) -> QuerySet[LoginSession]:
    """Return the live sessions, the last used first: the principal's own, or all."""
    alive = Session.objects.filter(session_key=OuterRef("key_hash"))
    rows = LoginSession.objects.filter(Exists(alive)).order_by("-seen_ms", "pk")
    return rows if everybody else rows.filter(account=who.name)


def end(row: LoginSession) -> None:
    """End the session with its next request; its open pages notice within seconds."""
    Session.objects.filter(session_key=row.key_hash).delete()
    row.delete()


def end_others(who: Principal, request: HttpRequest) -> int:
    """End the principal's sessions, except the request's own. Returns how many."""
    others = [row for row in visible_to(who, everybody=False) if not is_current(row, request)]
    for row in others:
        end(row)
    return len(others)


def is_current(row: LoginSession, request: HttpRequest) -> bool:
    """Return whether the request was sent with this session."""
    return row.key_hash == hash_key(getattr(request.session, "session_key", "") or "")


def prune() -> int:
    """Delete the rows of sessions that no longer exist. Returns how many."""
    alive = Session.objects.filter(session_key=OuterRef("key_hash"))
    return LoginSession.objects.filter(~Exists(alive)).delete()[0]


LOGIN_SECONDS = 900
"""The longest time for a login at the provider."""
_REMEMBERED_MS = 4 * OLDEST_SECONDS * 1000


class TokenReplay(ValueError):
    """This token has been used."""


def remember(request: HttpRequest, issuer: str, subject: str, sid: str) -> None:
    """Note that this subject of the provider began the request's session, in its session `sid` ("": it names none)."""
    key = hash_key(request.session.session_key or "")
    ProviderSession.objects.update_or_create(key_hash=key, defaults={"issuer": issuer, "subject": subject, "sid": sid})


def end_at_provider(issuer: str, token: LogoutToken) -> list[str]:
    """End the sessions that the token names. Returns the account of each ended session. Raises `TokenReplay`."""
    rows = ProviderSession.objects.filter(issuer=issuer)
    if token.sid:
        rows = rows.filter(sid=token.sid)
    if token.subject:
        rows = rows.filter(subject=token.subject)
    with transaction.atomic():
        _use(issuer, token.id)
        keys = list(rows.values_list("key_hash", flat=True))
        logins = LoginSession.objects.filter(key_hash__in=keys)
        accounts = list(logins.order_by("account").values_list("account", flat=True))
        Session.objects.filter(session_key__in=keys).delete()
        logins.delete()
        rows.delete()
    return accounts


def _use(issuer: str, token: str) -> None:
    digest = hashlib.sha256(f"{issuer}\n{token}".encode()).hexdigest()
    try:
        with transaction.atomic():
            UsedLogoutToken.objects.create(digest=digest, time_ms=epoch_ms())
    except IntegrityError:
        raise TokenReplay("jti") from None


def use_state(state: str) -> bool:
    """Remember that a login's `state` was answered. Returns whether this was the first time, in any web process."""
    digest = hashlib.sha256(state.encode()).hexdigest()
    row = UsedState(digest=digest, time_ms=epoch_ms())
    try:
        with transaction.atomic():
            row.save(force_insert=True)
    except IntegrityError:
        return False
    return True


def prune_used_tokens() -> int:
    """Delete rows of ended sessions, and what is too old to be accepted again. Return how many."""
    alive = Session.objects.filter(session_key=OuterRef("key_hash"))
    old = UsedLogoutToken.objects.filter(time_ms__lt=time.time() * 1000 - _REMEMBERED_MS)
    states = UsedState.objects.filter(time_ms__lt=time.time() * 1000 - 2 * LOGIN_SECONDS * 1000)
    return ProviderSession.objects.filter(~Exists(alive)).delete()[0] + old.delete()[0] + states.delete()[0]
