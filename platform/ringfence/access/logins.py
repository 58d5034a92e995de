"""Login sessions: a row for each, with its last use, so that sessions expire and can be ended one by one.

Django stores the content of a session; this table stores what users need to tell their sessions apart.
"""

import time
from typing import Final

from django.conf import settings
from django.contrib.sessions.models import Session
from django.db.models import Exists, OuterRef, QuerySet
from django.http import HttpRequest

from ringfence.access import tokens
from ringfence.access.client_address import address_of
from ringfence.access.models import LoginSession
from ringfence.access.principal import Principal
from ringfence.access.sessions import hash_key

BACKGROUND: Final = "X-Ringfence-Background"
"""The header of a page's automatic requests: an open page alone does not keep a session alive."""
_BACKGROUND_PATHS = ("/ui/events",)
_NOTED_EVERY_MS = 60_000
_LONGEST_AGENT = 300


def _now_ms() -> int:
    return int(time.time() * 1000)


def has_ended(request: HttpRequest, now_ms: int | None = None) -> bool:
    """End this request's session if it was unused for longer than RINGFENCE_SESSION_IDLE_MINUTES, or began more than
    RINGFENCE_SESSION_HOURS ago. Returns whether it has ended."""
    row = LoginSession.objects.filter(key_hash=hash_key(request.session.session_key or "")).first()
    if row is None:
        return False
    now, idle_ms = now_ms or _now_ms(), settings.SESSION_IDLE_MINUTES * 60_000
    idle = bool(idle_ms) and now - row.seen_ms > idle_ms
    if not idle and now - row.created_ms <= settings.SESSION_HOURS * 3_600_000:
        return False
    end(row)
    request.session.flush()
    return True


def note_use(request: HttpRequest, who: Principal, now_ms: int | None = None) -> None:
    """Note that the session was used, at most once a minute. Creates a missing row."""
    key, now = request.session.session_key, now_ms or _now_ms()
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
