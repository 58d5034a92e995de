"""From a provider's claims to a name and to grants: pure. The groups file says which group may do what, and where."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from ringfence.access.topic_patterns import topics_of
from ringfence.access.verbs import verbs_of
from ringfence.fencing.name_patterns import EVERYTHING

Claims = Mapping[str, Any]
_KEYS: Final = ("allow", "pattern", "topics")
_MOST_GROUPS: Final = 5000


class WrongGroups(ValueError):
    """The groups file cannot be meant. The message names the file and the entry."""


class Refused(Exception):
    """Who logged in at the provider does not come in here. The message is for them, and ends with the remedy."""


@dataclass(frozen=True, slots=True, order=True)
class GroupGrant:
    """What the members of a group may do, as a `Grant` keeps it."""

    what: str
    pattern: str = EVERYTHING
    topics: str = EVERYTHING


GroupGrants = Mapping[str, tuple[GroupGrant, ...]]


def read_groups(path: Path) -> GroupGrants:
    """Raises WrongGroups."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise WrongGroups(f"RINGFENCE_OIDC_GROUPS_FILE={path} cannot be read ({type(error).__name__})") from None
    try:
        return parse_groups(text)
    except WrongGroups as error:
        raise WrongGroups(f"RINGFENCE_OIDC_GROUPS_FILE={path}: {error}") from None


def parse_groups(text: str) -> GroupGrants:
    """YAML: each group with one entry or a list of them, each `{allow, pattern, topics}`. Raises WrongGroups."""
    try:
        given = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise WrongGroups(f"this is no YAML{f' (line {mark.line + 1})' if mark else ''}") from None
    if not isinstance(given, dict) or not given:
        raise WrongGroups("a mapping from groups to what they may do is expected, see docs/access.md")
    return {_group(name): _entries(name, value) for name, value in given.items()}


def _group(name: object) -> str:
    if not isinstance(name, str) or not name:
        raise WrongGroups(f"the group {name!r} is no text: put it in quotes")
    return name


def _entries(group: str, value: object) -> tuple[GroupGrant, ...]:
    listed = value if isinstance(value, list) else [value]
    if not listed:
        raise WrongGroups(f"the group {group} has no entry: remove it")
    return tuple(_entry(group, each) for each in listed)


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
    listed: list[Any] = value if isinstance(value, list) else [value]
    if not all(isinstance(each, str) for each in listed):
        raise ValueError(f"{value!r} is neither a text nor a list of texts")
    return [word for each in listed for word in each.split()]


def claim_of(claims: Claims, name: str) -> Any:
    """The claim of that very name, or else along its dots (`realm_access.roles`); None where there is none."""
    if name in claims:
        return claims[name]
    found: Any = claims
    for part in name.split("."):
        if not isinstance(found, Mapping) or part not in found:
            return None
        found = found[part]
    return found


def groups_of(claims: Claims, name: str) -> tuple[str, ...]:
    """The groups that a claim names: a list of texts, or one text. Raises Refused for anything else."""
    found = claim_of(claims, name)
    if found is None:
        elsewhere = claims.get("_claim_names")
        if isinstance(elsewhere, Mapping) and name in elsewhere:
            raise Refused(
                "You are in more groups than the provider puts into a token. An administrator can have it send only "
                "the groups that are assigned to this application"
            )
        return ()
    listed = found if isinstance(found, list) else [found]
    if not all(isinstance(each, str) for each in listed) or len(listed) > _MOST_GROUPS:
        raise Refused(
            f"The provider's claim {name!r} is no list of group names. An administrator can name another one in "
            "RINGFENCE_OIDC_GROUPS_CLAIM"
        )
    return tuple(dict.fromkeys(listed))


def name_of(claims: Claims, name: str) -> str:
    """What the account is called that a first login makes. Raises Refused."""
    found = claim_of(claims, name)
    if not isinstance(found, str) or not found.strip():
        raise Refused(
            f"The provider says nothing in the claim {name!r}, which names accounts here. An administrator can have "
            "it sent, add its scope to RINGFENCE_OIDC_SCOPES, or name another claim in RINGFENCE_OIDC_NAME_CLAIM"
        )
    if name == "email" and claims.get("email_verified") is False:
        raise Refused("The provider has not verified your mail address. Verify it there, then log in again")
    return found.strip()


def grants_for(groups: Iterable[str], mapping: GroupGrants) -> tuple[GroupGrant, ...]:
    """What these groups give together; the topics of equal roles on equal patterns add up."""
    topics: dict[tuple[str, str], list[str]] = {}
    for group in groups:
        for grant in mapping.get(group, ()):
            topics.setdefault((grant.what, grant.pattern), []).append(grant.topics)
    return tuple(
        sorted(
            GroupGrant(what, pattern, EVERYTHING if EVERYTHING in given else topics_of(sorted(given)))
            for (what, pattern), given in topics.items()
        )
    )
