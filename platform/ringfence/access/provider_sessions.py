"""The sessions that single sign-on began: when the provider logs a user out, they end here, too."""

import hashlib
import time

from django.contrib.sessions.models import Session
from django.db import IntegrityError, transaction
from django.db.models import Exists, OuterRef
from django.http import HttpRequest

from ringfence.access.models import LoginSession, ProviderSession, UsedLogoutToken, UsedState
from ringfence.access.oidc.logout_token import OLDEST_SECONDS, LogoutToken
from ringfence.access.sessions import hash_key

LOGIN_SECONDS = 900
"""The longest time for a login at the provider."""
_REMEMBERED_MS = 4 * OLDEST_SECONDS * 1000


class TokenReplay(ValueError):
    """This token has been used."""


def remember(request: HttpRequest, issuer: str, subject: str, sid: str) -> None:
    """Note that this subject of the provider began the request's session, in its session `sid` ("": it names none)."""
    key = hash_key(request.session.session_key or "")
    ProviderSession.objects.update_or_create(key_hash=key, defaults={"issuer": issuer, "subject": subject, "sid": sid})


def end(issuer: str, token: LogoutToken) -> list[str]:
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
            UsedLogoutToken.objects.create(digest=digest, time_ms=int(time.time() * 1000))
    except IntegrityError:
        raise TokenReplay("jti") from None


def use_state(state: str) -> bool:
    """Remember that a login's `state` was answered. Returns whether this was the first time, in any web process."""
    digest = hashlib.sha256(state.encode()).hexdigest()
    row = UsedState(digest=digest, time_ms=int(time.time() * 1000))
    try:
        with transaction.atomic():
            row.save(force_insert=True)
    except IntegrityError:
        return False
    return True


def prune() -> int:
    """Delete rows of ended sessions, and what is too old to be accepted again. Return how many."""
    alive = Session.objects.filter(session_key=OuterRef("key_hash"))
    old = UsedLogoutToken.objects.filter(time_ms__lt=time.time() * 1000 - _REMEMBERED_MS)
    states = UsedState.objects.filter(time_ms__lt=time.time() * 1000 - 2 * LOGIN_SECONDS * 1000)
    return ProviderSession.objects.filter(~Exists(alive)).delete()[0] + old.delete()[0] + states.delete()[0]
