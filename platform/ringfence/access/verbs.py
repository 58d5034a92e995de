"""The permissions: verbs, and roles that name sets of verbs."""

from collections.abc import Iterable
from enum import StrEnum


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
