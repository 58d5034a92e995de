"""What has changed between two versions of a folded state, without a look at all of it.

Each fold adds the names that it has changed to the history of the state that it began with. Two states with a common
ancestor then differ in the names that either history has gained since. A history is short: for a reader that is too
far behind, and for states that no fold has made, all values are compared by identity. Unchanged ones are shared.
"""

from collections.abc import Hashable, Mapping, Set
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

_MOST_CHANGES: Final = 64
_MOST_NAMES: Final = 1_000
"""Of one change. More are not kept: to compare all values costs little more."""

Name = TypeVar("Name", bound=Hashable)
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, eq=False)
class Change(Generic[Name]):
    """What one fold has changed; None for too many names. Equal only to itself."""

    names: frozenset[Name] | None


History = tuple[Change[Name], ...]
"""The latest changes that led to a state, oldest first."""


def extend(history: "History[Name]", names: Set[Name]) -> "History[Name]":
    """Return the history of a state in which these names have changed."""
    if not names:
        return history
    change = Change(frozenset(names) if len(names) <= _MOST_NAMES else None)
    return (*history[1 - _MOST_CHANGES :], change)


def names_between(before: "History[Name]", after: "History[Name]") -> Set[Name] | None:
    """Return the names that may differ between states with these histories; None if they do not say it."""
    for index in range(len(before), 0, -1):
        if before[index - 1] in after:
            names: set[Name] = set()
            for change in (*before[index:], *after[after.index(before[index - 1]) + 1 :]):
                if change.names is None:
                    return None
                names |= change.names
            return names
    return None


def compare(before: Mapping[Name, Value], after: Mapping[Name, Value]) -> set[Name]:
    """Return the names whose values are not the same objects."""
    names = {name for name, value in after.items() if before.get(name) is not value}
    return names.union(name for name in before if name not in after)


class SharedMap(Generic[Name, Value]):
    """A mapping for a fold. It is copied before the first change, and again if it was shared in between."""

    __slots__ = ("_items", "_own")

    def __init__(self, items: Mapping[Name, Value]) -> None:
        self._items = items
        self._own: dict[Name, Value] | None = None

    def get(self, name: Name) -> Value | None:
        return self._items.get(name)

    def own(self) -> dict[Name, Value]:
        """Return the mapping, to change it."""
        if self._own is None:
            self._items = self._own = dict(self._items)
        return self._own

    def share(self) -> Mapping[Name, Value]:
        """Return the mapping, which does not change any more."""
        self._own = None
        return self._items
