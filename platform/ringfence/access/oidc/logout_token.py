"""What a logout token must stand up to (OpenID Connect Back-Channel Logout 1.0, section 2.6): pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

EVENT: Final = "http://schemas.openid.net/event/backchannel-logout"
OLDEST_SECONDS: Final = 300
"""A token that was issued longer ago is refused, so that only so many ids have to be remembered."""
_LEEWAY_SECONDS: Final = 60
_LONGEST: Final = 255


class WrongToken(ValueError):
    """The message is the claim that is wrong."""


@dataclass(frozen=True, slots=True)
class LogoutToken:
    """Whose sessions end: that of `sid`, or without one all of `subject`; at least one of them is there."""

    id: str
    subject: str
    sid: str


def check_logout_token(
    header: Mapping[str, Any], claims: Mapping[str, Any], *, issuer: str, client_id: str, now: float
) -> LogoutToken:
    """Of a token whose signature is the provider's. `now`: seconds since the epoch. Raises WrongToken."""
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
    if "nonce" in claims:  # an ID token's: one that was stolen is to end no session
        raise WrongToken("nonce")
    events = claims.get("events")
    if not isinstance(events, Mapping) or not isinstance(events.get(EVENT), Mapping):
        raise WrongToken("events")
    found = LogoutToken(_text(claims, "jti"), _text(claims, "sub", ""), _text(claims, "sid", ""))
    if not found.subject and not found.sid:
        raise WrongToken("sub")
    return found


def _number(claims: Mapping[str, Any], name: str) -> float:
    found = claims.get(name)
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise WrongToken(name)
    return found


def _text(claims: Mapping[str, Any], name: str, default: str | None = None) -> str:
    found = claims.get(name, default)
    if not isinstance(found, str) or len(found) > _LONGEST or (not found and default is None):
        raise WrongToken(name)
    return found
