"""Who asks, and what they may do: grants of verbs on patterns, under the ceiling of a token's scope."""

from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import Q

from ringfence.access.verbs import Verb
from ringfence.fencing.name_patterns import EVERYTHING, matches, regular_expression
from ringfence.fencing.topics.topic_grants import Groups, limits


@dataclass(frozen=True, slots=True)
class Right:
    """Some verbs on the connectors whose names match a pattern; topics: patterns of those that they may write to."""

    verbs: frozenset[Verb]
    pattern: str = EVERYTHING
    topics: tuple[str, ...] = (EVERYTHING,)

    def allows(self, verb: Verb, name: str) -> bool:
        return verb in self.verbs and matches(self.pattern, name)

    def covers_topic(self, topic: str) -> bool:
        """Whether the topic may be read by its own name, whoever writes it: the pattern names topics, too."""
        named = any(matches(each, topic) for each in self.topics)
        return named and all(self.allows(verb, topic) for verb in (Verb.READ_TOPICS, Verb.VIEW_DATA))


ALL_RIGHTS = Right(frozenset(Verb))

_WITHOUT_ACCOUNT = frozenset({"loopback", "nobody", "server token", "session by server token"})

Eyes = tuple[frozenset[Right], Right]


@dataclass(frozen=True, slots=True)
class Principal:
    """`name`: "" where nobody logs in. `via`: loopback, session, token …; what a token may is limited by `ceiling`."""

    name: str
    via: str
    rights: tuple[Right, ...] = ()
    ceiling: Right = ALL_RIGHTS

    @property
    def account(self) -> str:
        """The account whose grants these rights are; "" for the server's token, and where nobody logs in."""
        return "" if self.via in _WITHOUT_ACCOUNT else self.name

    @property
    def eyes(self) -> "Eyes":
        """The same for all who may do the same, and only for them: what they are shown alike is made once."""
        return frozenset(self.rights), self.ceiling

    def may(self, verb: Verb, name: str) -> bool:
        """Whether the verb is allowed on the connector of that name, which need not be there."""
        return self.ceiling.allows(verb, name) and any(right.allows(verb, name) for right in self.rights)

    def topics(self, verb: Verb, name: str) -> Groups:
        """What limits the topics for which the verb is allowed on the connector of that name; () for nothing."""
        granted = [topic for right in self.rights if right.allows(verb, name) for topic in right.topics]
        return limits([granted, self.ceiling.topics])

    def may_read_topic(self, topic: str) -> bool:
        """Whether any topic of that name may be read, whoever writes it. Internal ones take `admin` everywhere, too."""
        return self.ceiling.covers_topic(topic) and any(right.covers_topic(topic) for right in self.rights)

    def may_somewhere(self, verb: Verb) -> bool:
        """Whether there may be a connector on which the verb is allowed: enough for lists, which show no others."""
        return verb in self.ceiling.verbs and any(verb in right.verbs for right in self.rights)

    def may_everywhere(self, verb: Verb) -> bool:
        """Whether the verb is allowed on every connector: needed for what concerns all of them."""
        return (
            verb in self.ceiling.verbs
            and self.ceiling.pattern == EVERYTHING
            and any(verb in right.verbs and right.pattern == EVERYTHING for right in self.rights)
        )

    def verbs_on(self, name: str) -> frozenset[Verb]:
        return frozenset(verb for verb in Verb if self.may(verb, name))

    def filter_names(self, names: Iterable[str], verb: Verb = Verb.VIEW) -> list[str]:
        """Those of the names on which the verb is allowed."""
        return list(names) if self.may_everywhere(verb) else [name for name in names if self.may(verb, name)]

    def query(self, verb: Verb = Verb.VIEW, field: str = "name") -> Q:
        """The same as a database condition on the field that holds a connector's name."""
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
    return Q(**{f"{field}__regex": regular_expression(pattern)})


EVERYBODY_HERE = Principal("", "loopback", (ALL_RIGHTS,))
"""Who needs no login (`access.local`)."""

NOBODY = Principal("", "nobody")
