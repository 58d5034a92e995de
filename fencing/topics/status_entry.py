"""The base class of the status topic's record types: each knows its key, its value, and its effect.

A new type is one class, in its own module, and one line in `status.RECORD_TYPES`.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:  # what the records change is built from them
    from ringfence.fencing.topics.status_state import StatusState

Fields = Mapping[str, object]
"""A value: a JSON object."""


class StatusEntry(ABC):
    """A record that is not a tombstone. Subclasses are frozen dataclasses."""

    __slots__ = ()
    PREFIX: ClassVar[str]
    """The prefix of its keys."""

    @classmethod
    @abstractmethod
    def parse(cls, rest: str, value: Fields) -> "StatusEntry | None":
        """Parse the record with the key `PREFIX + rest`; None if that is not a key of this type.

        Raises KeyError, TypeError or ValueError for a value that cannot be read.
        """

    @abstractmethod
    def to_key(self) -> str: ...

    @abstractmethod
    def to_value(self) -> Fields: ...

    @abstractmethod
    def apply_to(self, state: "StatusState") -> "StatusState":
        """Return the state after this record."""

    @classmethod
    @abstractmethod
    def remove(cls, rest: str, state: "StatusState") -> "StatusState":
        """Return the state after a tombstone with the key `PREFIX + rest`."""


def parse_number(value: Fields, name: str, default: int = -1) -> int:
    """Return a number; `default` if the field is missing or not a number."""
    item = value.get(name, default)
    return item if isinstance(item, int) else default


def parse_text(value: Fields, name: str) -> str | None:
    """Return a string; None if the field is missing or empty."""
    item = value.get(name)
    return str(item) if item else None
