"""The sender of a request and their rights: grants of verbs on patterns, limited by a token's scope."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from django.db import connection
from django.db.models import Q

from ringfence.fencing.name_patterns import EVERYTHING, linear_expression, matches, regular_expression
from ringfence.fencing.topics.topic_grants import Groups, limits
from ringfence.requests.quota import DEFAULT, NO_LIMITS, Quota, largest


class Verb(StrEnum):
    """An action that a user or token may perform on the connectors that match a pattern."""

    VIEW = "view"
    VIEW_CONFIG = "view-config"
    VIEW_DATA = "view-data"
    READ_TOPICS = "read-topics"
    OPERATE = "operate"
    EDIT = "edit"
    OFFSETS = "offsets"
    FENCE = "fence"
    JAVA_PLUGINS = "java-plugins"
    DELETE = "delete"
    SHARE_GROUPS = "share-groups"
    INSTALL_PLUGINS = "install-plugins"
    ADMIN = "admin"

    @property
    def meaning(self) -> str:
        return _MEANINGS[self]


_MEANINGS = {
    Verb.VIEW: "see that it is there, its state, tasks, offsets and numbers",
    Verb.VIEW_CONFIG: "read its configuration (secrets stay hidden)",
    Verb.VIEW_DATA: "look at the last records of the topics that it writes to",
    Verb.READ_TOPICS: "with view-data: read every topic of that name, and who consumes it, with the workers' login",
    Verb.OPERATE: "pause, resume, stop and restart",
    Verb.EDIT: "create it and change its configuration",
    Verb.OFFSETS: "change and reset source offsets",
    Verb.FENCE: "fence its transactional ids",
    Verb.JAVA_PLUGINS: "with edit: use Java plugins, which can read and connect to whatever the worker's user can",
    Verb.DELETE: "delete it",
    Verb.SHARE_GROUPS: "move, configure and delete share groups of that name, and the one of that connector",
    Verb.INSTALL_PLUGINS: "install plugins on all workers, which run their code as the worker's user",
    Verb.ADMIN: "read the whole audit trail and change what concerns every connector, log levels for example",
}

_VIEWER = frozenset({Verb.VIEW, Verb.VIEW_CONFIG})
_OPERATOR = _VIEWER | {Verb.OPERATE, Verb.VIEW_DATA}
_EDITOR = _OPERATOR | {Verb.EDIT, Verb.OFFSETS, Verb.DELETE}
ROLES: dict[str, frozenset[Verb]] = {
    "viewer": _VIEWER,
    "operator": _OPERATOR,
    "editor": _EDITOR,
    "admin": frozenset(Verb),
}


def verbs_of(names: Iterable[str]) -> frozenset[Verb]:
    """Return the verbs of these roles and verbs. A role takes precedence over a verb of the same name. Raises
    `ValueError` for any other name.
    """
    verbs: set[Verb] = set()
    for name in names:
        if name in ROLES:
            verbs |= ROLES[name]
        elif name in frozenset(Verb):
            verbs.add(Verb(name))
        else:
            choices = ", ".join([*ROLES, *(verb.value for verb in Verb if verb.value not in ROLES)])
            raise ValueError(f"{name!r} is neither a role nor a verb: use some of {choices}")
    return frozenset(verbs)


_TOPICS = re.compile(r"[a-zA-Z0-9._*?-]+")


def topics_of(patterns: Iterable[str]) -> str:
    """Normalise patterns for grants and tokens. Raises `ValueError` for no pattern, or one that no topic's name can
    match.
    """
    parts = [part for pattern in patterns for part in pattern.split()]
    wrong = [pattern for pattern in parts if not _TOPICS.fullmatch(pattern)]
    if not parts or wrong:
        raise ValueError(
            f"{wrong[0] if wrong else 'nothing'!r} matches no topic: names have a-z, A-Z, 0-9, '.', '_' and '-'; "
            "* stands for any characters, ? for one"
        )
    return " ".join(dict.fromkeys(parts))


@dataclass(frozen=True, slots=True)
class Right:
    """Verbs on the connectors whose names match a pattern. topics: patterns of the topics that they may write to.
    quota: how much the account's connectors may have in all.
    """

    verbs: frozenset[Verb]
    pattern: str = EVERYTHING
    topics: tuple[str, ...] = (EVERYTHING,)
    quota: Quota = DEFAULT

    def allows(self, verb: Verb, name: str) -> bool:
        return verb in self.verbs and matches(self.pattern, name)

    def covers_topic(self, topic: str) -> bool:
        """Return whether the topic may be read by its own name, whoever writes it: the pattern also covers topics."""
        is_named = any(matches(each, topic) for each in self.topics)
        return is_named and all(self.allows(verb, topic) for verb in (Verb.READ_TOPICS, Verb.VIEW_DATA))


WITHOUT_LOGIN = "a user of this machine"
"""What everybody is called who was let in without a login, in all places."""


def display_name(user: str, via: str = "") -> str:
    """Return how an account is called for people, and over which way it came. user: "" without a login."""
    if not user:
        return WITHOUT_LOGIN
    return f"{user} ({via})" if via else user


ALL_RIGHTS = Right(frozenset(Verb))

_WITHOUT_ACCOUNT = frozenset({"loopback", "nobody", "server token", "session by server token"})

Eyes = tuple[frozenset[Right], Right]


@dataclass(frozen=True, slots=True)
class Principal:
    """name: "" without a login. via: loopback, session, token …; ceiling: limits the rights of a token."""

    name: str
    via: str
    rights: tuple[Right, ...] = ()
    ceiling: Right = ALL_RIGHTS

    @property
    def account(self) -> str:
        """The account with these grants; "" for the server's token, and without a login."""
        return "" if self.via in _WITHOUT_ACCOUNT else self.name

    @property
    def is_whole_account(self) -> bool:
        """Return whether it may do all that its account may: a session of it, or a token without a limit."""
        return self.ceiling == ALL_RIGHTS

    @property
    def eyes(self) -> "Eyes":
        """A key that is equal only for principals with the same rights, so that what they all see is rendered once."""
        return frozenset(self.rights), self.ceiling

    def may(self, verb: Verb, name: str) -> bool:
        """Return whether the verb is allowed on the connector with that name, which need not exist."""
        return self.ceiling.allows(verb, name) and any(right.allows(verb, name) for right in self.rights)

    def topics(self, verb: Verb, name: str) -> Groups:
        """Return the limits on topics for the verb on the connector with that name; () for no limit."""
        granted = [topic for right in self.rights if right.allows(verb, name) for topic in right.topics]
        return limits([granted, self.ceiling.topics])

    def quota(self, name: str) -> Quota:
        """Return how much the account's connectors may have in all, if it saves the connector with that name."""
        if not self.account:
            return NO_LIMITS
        return largest(right.quota for right in self.rights if right.allows(Verb.EDIT, name))

    def may_read_topic(self, topic: str) -> bool:
        """Return whether a topic with that name may be read, whoever writes it. Internal topics also require `admin`
        everywhere.
        """
        return self.ceiling.covers_topic(topic) and any(right.covers_topic(topic) for right in self.rights)

    def may_somewhere(self, verb: Verb) -> bool:
        """Return whether the verb may be allowed on some connector. That is enough for lists, which only show those."""
        return verb in self.ceiling.verbs and any(verb in right.verbs for right in self.rights)

    def may_everywhere(self, verb: Verb) -> bool:
        """Return whether the verb is allowed on every connector, as required for what concerns all of them.

        Not `admin` for a token with a limit of topics: it could grant its account what the limit keeps from it.
        """
        return (
            verb in self.ceiling.verbs
            and self.ceiling.pattern == EVERYTHING
            and (verb is not Verb.ADMIN or self.ceiling.topics == ALL_RIGHTS.topics)
            and any(verb in right.verbs and right.pattern == EVERYTHING for right in self.rights)
        )

    def verbs_on(self, name: str) -> frozenset[Verb]:
        return frozenset(verb for verb in Verb if self.may(verb, name))

    def filter_names(self, names: Iterable[str], verb: Verb = Verb.VIEW) -> list[str]:
        """Return the names on which the verb is allowed."""
        return list(names) if self.may_everywhere(verb) else [name for name in names if self.may(verb, name)]

    def query(self, verb: Verb = Verb.VIEW, field: str = "name") -> Q:
        """Return the same as a database condition on the field with the connector's name."""
        if self.may_everywhere(verb):
            return Q()
        allowed = Q(pk__in=[])
        for right in self.rights:
            if verb in right.verbs and verb in self.ceiling.verbs:
                allowed |= _matching(field, right.pattern)
        return allowed & _matching(field, self.ceiling.pattern)


def _matching(field: str, pattern: str) -> Q:
    if pattern == EVERYTHING:
        return ~Q(pk__in=[])
    expression = linear_expression if connection.vendor == "sqlite" else regular_expression
    return Q(**{f"{field}__regex": expression(pattern)})


EVERYBODY_HERE = Principal("", "loopback", (ALL_RIGHTS,))
"""The principal of requests that need no login (`access.no_login`)."""

NOBODY = Principal("", "nobody")
