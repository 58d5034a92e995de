"""Identifies the sender of a request: by a token in its header, or by a login session."""

import base64
import secrets
from dataclasses import dataclass
from importlib import import_module

from django.conf import settings
from django.contrib.auth import get_user
from django.contrib.auth.models import User
from django.http import HttpRequest

from ringfence import quotas
from ringfence.access import sessions, throttle, tokens
from ringfence.access.client_address import address_of, group_of
from ringfence.access.models import Grant, OidcIdentity, Token
from ringfence.access.no_login import needs_no_login
from ringfence.access.principal import ALL_RIGHTS, EVERYBODY_HERE, Principal, Right

TOKEN_KEY = "ringfence_token"  # noqa: S105 - names a session's entry
MASTER_KEY = "ringfence_master"
ISSUER_KEY = "ringfence_issuer"
"""The session key for the identity provider's issuer, in a session that single sign-on began."""
_LONGEST_NAME = 150
_BUSY_SECONDS = 1
"""Until the next try, where too many wrong tokens are being counted."""
BY_SINGLE_SIGN_ON = "session by single sign-on"


@dataclass(frozen=True, slots=True)
class Nobody:
    """No valid credentials. `wait`: seconds until the next try is accepted, 0 for now."""

    wait: int = 0


def identify(request: HttpRequest) -> Principal | Nobody:
    """Identify the sender. A header takes precedence over a session, so that a script in a browser acts as
    its token.
    """
    if needs_no_login(request):
        return EVERYBODY_HERE
    if "Authorization" in request.headers:
        return _by_header(request)
    who = _by_session(request)
    if isinstance(who, Nobody):
        return who
    if sessions.has_ended(request):
        return Nobody()
    sessions.note_use(request, who)
    return who


def identify_again(request: HttpRequest) -> Principal | Nobody:
    """Identify the sender again, by the current session and account, whether or not they were read before."""
    fresh = HttpRequest()
    fresh.META, fresh.COOKIES, fresh.path_info = request.META, request.COOKIES, request.path_info
    fresh.scope = getattr(request, "scope", {})  # type: ignore[attr-defined]
    engine = import_module(settings.SESSION_ENGINE)
    fresh.session = engine.SessionStore(fresh.COOKIES.get(settings.SESSION_COOKIE_NAME))
    fresh.user = get_user(fresh)
    return identify(fresh)


def by_secret(request: HttpRequest, secret: str, name: str = "") -> Principal | Nobody:
    """Return the principal of a token, or of RINGFENCE_TOKEN. Each wrong token counts against the address."""
    row = tokens.find(secret) if secret.startswith(tokens.PREFIX) else None
    if row is not None:
        tokens.record_use(row)
        return of_token(row)
    if is_master(secret):
        return Principal(_server_token_name(name), "server token", (ALL_RIGHTS,))
    return _count_wrong(address_of(request), secret)


def _count_wrong(address: str, secret: str) -> Nobody:
    """Count a wrong token in a place of those that all wrong tokens share: so requests that need no permission never
    occupy all threads and database connections, whatever the database takes for it.
    """
    limits = throttle.keys(address)
    try:
        with quotas.WRONG_TOKENS.take(group_of(address)):
            wait = throttle.wait_seconds(limits)
            if not wait and secret:
                throttle.record_failure(limits)
    except quotas.TooMany:  # it was wrong anyway, and is told nothing else
        return Nobody(_BUSY_SECONDS)
    return Nobody(wait)


def _server_token_name(claimed: str) -> str:
    """Return how the audit trail names whoever sent the server's token; claimed: the name that they gave.

    An account's name has no colon, so this is never taken for one.
    """
    return f"token:{claimed[:_LONGEST_NAME]}" if claimed else "token"


def is_master(secret: str) -> bool:
    """Return whether this is RINGFENCE_TOKEN, the token that may do everything. If it is not set, nothing matches."""
    expected = settings.ACCESS_TOKEN
    return bool(expected) and secrets.compare_digest(secret.encode(), expected.encode())


def master_mark() -> str:
    """Return the mark of a session that was made with RINGFENCE_TOKEN: the session ends when that token changes."""
    return tokens.digest(settings.SECRET_KEY + settings.ACCESS_TOKEN)


def of_token(row: Token, via: str = "token") -> Principal:
    user = row.user
    return Principal(user.get_username(), f"{via} {row.name}", rights_of(user), ceiling=row.scope)


def rights_of(user: User) -> tuple[Right, ...]:
    """Return what an account may do: only its grants. Django's flags (staff, superuser) have no effect."""
    return tuple(grant.right for grant in Grant.objects.filter(user_id=user.pk).order_by("id"))


def _by_header(request: HttpRequest) -> Principal | Nobody:
    scheme, _, credentials = request.headers["Authorization"].partition(" ")
    name, secret = "", credentials.strip()
    if scheme.lower() == "basic":
        try:
            name, _, secret = base64.b64decode(secret, validate=True).decode().partition(":")
        except ValueError:
            return Nobody()
    elif scheme.lower() != "bearer":
        return Nobody()
    return by_secret(request, secret, name)


def _by_session(request: HttpRequest) -> Principal | Nobody:
    if mark := request.session.get(MASTER_KEY):
        valid = secrets.compare_digest(str(mark), master_mark())  # sessions are not made with an empty token
        return Principal("token", "session by server token", (ALL_RIGHTS,)) if valid else Nobody()
    if number := request.session.get(TOKEN_KEY):
        row = Token.objects.select_related("user").filter(pk=number).first()
        return of_token(row, "session by token") if row is not None and tokens.usable(row) else Nobody()
    user = request.user
    if not isinstance(user, User) or not user.is_active:
        return Nobody()
    if issuer := request.session.get(ISSUER_KEY):
        return (
            Principal(user.get_username(), BY_SINGLE_SIGN_ON, rights_of(user)) if _is_linked(user, issuer) else Nobody()
        )
    return Principal(user.get_username(), "session", rights_of(user)) if settings.PASSWORD_LOGIN else Nobody()


def _is_linked(user: User, issuer: str) -> bool:
    """Return whether that provider is still configured, and still identifies this account."""
    trusted = settings.OIDC is not None and settings.OIDC.issuer == issuer
    return trusted and OidcIdentity.objects.filter(issuer=issuer, user_id=user.pk).exists()
