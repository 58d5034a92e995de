"""What a provider's claims mean: an account's name and grants, or which sessions a logout token ends (OpenID Connect
Back-Channel Logout 1.0, section 2.6). Pure. The groups file maps groups to grants.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from ringfence.access.principal import topics_of, verbs_of
from ringfence.fencing.name_patterns import EVERYTHING

Claims = Mapping[str, Any]
_KEYS: Final = ("allow", "pattern", "topics")
_MOST_GROUPS: Final = 5000


class WrongGroups(ValueError):
    """The groups file is invalid. The message names the file and the entry."""


class LoginDenied(Exception):
    """A person who logged in at the provider is refused here. The message is for them and ends with the remedy."""


@dataclass(frozen=True, slots=True, order=True)
class GroupGrant:
    """What the members of a group may do, with the fields of `Grant`."""

    what: str
    pattern: str = EVERYTHING
    topics: str = EVERYTHING


GroupGrants = Mapping[str, tuple[GroupGrant, ...]]


def read_groups(path: Path) -> GroupGrants:
    """Read the groups file. Raises WrongGroups."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise WrongGroups(f"RINGFENCE_OIDC_GROUPS_FILE={path} cannot be read ({type(error).__name__})") from None
    try:
        return parse_groups(text)
    except WrongGroups as error:
        raise WrongGroups(f"RINGFENCE_OIDC_GROUPS_FILE={path}: {error}") from None


def parse_groups(text: str) -> GroupGrants:
    """Parse YAML that maps each group to one entry or a list of entries, each `{allow, pattern, topics}`.

    Raises WrongGroups.
    """
    try:
        mapping = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise WrongGroups(f"this is not YAML{f' (line {mark.line + 1})' if mark else ''}") from None
    if not isinstance(mapping, dict) or not mapping:
        raise WrongGroups("a mapping from groups to what they may do is expected, see docs/access.md")
    return {_group(name): _entries(name, value) for name, value in mapping.items()}


def _group(name: object) -> str:
    if not isinstance(name, str) or not name:
        raise WrongGroups(f"the group {name!r} is not a string: put it in quotes")
    return name


def _entries(group: str, value: object) -> tuple[GroupGrant, ...]:
    entries = value if isinstance(value, list) else [value]
    if not entries:
        raise WrongGroups(f"the group {group} has no entry: remove it")
    return tuple(_entry(group, each) for each in entries)


def _entry(group: str, value: object) -> GroupGrant:
    if not isinstance(value, dict) or "allow" not in value:
        raise WrongGroups(f"the group {group}: `allow: [editor]`, with `pattern` and `topics` if wanted, is expected")
    if unknown := sorted(map(str, value.keys() - set(_KEYS))):
        raise WrongGroups(f"the group {group}: {unknown[0]!r} is unknown, use {', '.join(_KEYS)}")
    pattern = value.get("pattern", EVERYTHING)
    if not isinstance(pattern, str) or not pattern.strip():
        raise WrongGroups(f"the group {group}: `pattern` is one pattern of connector names, such as 'team-a-*'")
    try:
        what = _words(value["allow"])
        if not verbs_of(what):
            raise WrongGroups(f"the group {group}: `allow` names no role or permission")
        return GroupGrant(" ".join(what), pattern.strip(), topics_of(_words(value.get("topics", EVERYTHING))))
    except ValueError as error:
        raise WrongGroups(f"the group {group}: {error}") from None


def _words(value: object) -> list[str]:
    texts: list[Any] = value if isinstance(value, list) else [value]
    if not all(isinstance(each, str) for each in texts):
        raise ValueError(f"{value!r} is neither a string nor a list of strings")
    return [word for each in texts for word in each.split()]


def claim_of(claims: Claims, name: str) -> Any:
    """Return the claim with this exact name, else the one at this path (`realm_access.roles`), else None."""
    if name in claims:
        return claims[name]
    value: Any = claims
    for part in name.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return None
        value = value[part]
    return value


def groups_of(claims: Claims, name: str) -> tuple[str, ...]:
    """Return the groups in a claim: a string or a list of strings. Raises `LoginDenied` for anything else."""
    claim = claim_of(claims, name)
    if claim is None:
        elsewhere = claims.get("_claim_names")
        if isinstance(elsewhere, Mapping) and name in elsewhere:
            raise LoginDenied(
                "You are in more groups than the provider puts into a token. An administrator can have it send only "
                "the groups that are assigned to this application"
            )
        return ()
    groups = claim if isinstance(claim, list) else [claim]
    if not all(isinstance(each, str) for each in groups) or len(groups) > _MOST_GROUPS:
        raise LoginDenied(
            f"The provider's claim {name!r} is not a list of group names. An administrator can name another one in "
            "RINGFENCE_OIDC_GROUPS_CLAIM"
        )
    return tuple(dict.fromkeys(groups))


def name_of(claims: Claims, name: str) -> str:
    """Return the name of the account that a first login creates. Raises `LoginDenied`."""
    claim = claim_of(claims, name)
    if not isinstance(claim, str) or not claim.strip():
        raise LoginDenied(
            f"The provider sends no claim {name!r}, which names accounts here. An administrator can configure the "
            "provider to send it, add its scope to RINGFENCE_OIDC_SCOPES, or name another claim in "
            "RINGFENCE_OIDC_NAME_CLAIM"
        )
    if name == "email" and claims.get("email_verified") is False:
        raise LoginDenied("The provider has not verified your mail address. Verify it there, then log in again")
    return claim.strip()


def grants_for(groups: Iterable[str], mapping: GroupGrants) -> tuple[GroupGrant, ...]:
    """Return the grants of all these groups. The topics of grants with the same role and pattern are combined."""
    topics: dict[tuple[str, str], list[str]] = {}
    for group in groups:
        for grant in mapping.get(group, ()):
            topics.setdefault((grant.what, grant.pattern), []).append(grant.topics)
    return tuple(
        sorted(
            GroupGrant(what, pattern, EVERYTHING if EVERYTHING in topic_patterns else topics_of(sorted(topic_patterns)))
            for (what, pattern), topic_patterns in topics.items()
        )
    )


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
