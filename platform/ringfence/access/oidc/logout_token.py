"""Validates logout tokens (OpenID Connect Back-Channel Logout 1.0, section 2.6). Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

EVENT: Final = "http://schemas.openid.net/event/backchannel-logout"
OLDEST_SECONDS: Final = 300
"""The maximum age of a token. It bounds the number of ids that have to be remembered."""
_LEEWAY_SECONDS: Final = 60
_LONGEST: Final = 255


class WrongToken(ValueError):
    """The token is invalid. The message is the name of the wrong claim."""


@dataclass(frozen=True, slots=True)
class LogoutToken:
    """The sessions to end: the one with `sid`, or all of `subject` without a `sid`. At least one is set."""

    id: str
    subject: str
    sid: str


def check_logout_token(
    header: Mapping[str, Any], claims: Mapping[str, Any], *, issuer: str, client_id: str, now: float
) -> LogoutToken:
    """Check a token whose signature is already validated. now: seconds since the epoch. Raises WrongToken."""
    if header.get("typ", "logout+jwt") not in ("logout+jwt", "JWT"):
        raise WrongToken("typ")
    if claims.get("iss") != issuer:
        raise WrongToken("iss")
    audience = claims.get("aud")
    if client_id not in (audience if isinstance(audience, list) else [audience]):
        raise WrongToken("aud")
    if not now - OLDEST_SECONDS <= _number(claims, "iat") <= now + _LEEWAY_SECONDS:
        raise WrongToken("iat")
    if "exp" in claims and _number(claims, "exp") < now - _LEEWAY_SECONDS:
        raise WrongToken("exp")
    if "nonce" in claims:  # only ID tokens have one: a stolen ID token must not end a session
        raise WrongToken("nonce")
    events = claims.get("events")
    if not isinstance(events, Mapping) or not isinstance(events.get(EVENT), Mapping):
        raise WrongToken("events")
    token = LogoutToken(_text(claims, "jti"), _text(claims, "sub", ""), _text(claims, "sid", ""))
    if not token.subject and not token.sid:
        raise WrongToken("sub")
    return token


def _number(claims: Mapping[str, Any], name: str) -> float:
    number = claims.get(name)
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise WrongToken(name)
    return number


def _text(claims: Mapping[str, Any], name: str, default: str | None = None) -> str:
    text = claims.get(name, default)
    if not isinstance(text, str) or len(text) > _LONGEST or (not text and default is None):
        raise WrongToken(name)
    return text
