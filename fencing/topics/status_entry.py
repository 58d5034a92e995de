"""What every type of record in the status topic knows: its key, its value, and what it changes.

A new type is one class, in a module of its own, and one line in `status.RECORD_TYPES`.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:  # what the records change is built from them
    from ringfence.fencing.topics.status_state import StatusState

Fields = Mapping[str, object]
"""A value: a JSON object."""


class StatusEntry(ABC):
    """One record that is no tombstone. Subclasses are frozen dataclasses."""

    __slots__ = ()
    PREFIX: ClassVar[str]
    """What its keys begin with."""

    @classmethod
    @abstractmethod
    def parse(cls, rest: str, value: Fields) -> "StatusEntry | None":
        """The record under the key `PREFIX + rest`; None where that is not a key of this type.

        Raises KeyError, TypeError or ValueError for a value that cannot be read.
        """

    @abstractmethod
    def to_key(self) -> str: ...

    @abstractmethod
    def to_value(self) -> Fields: ...

    @abstractmethod
    def apply_to(self, state: "StatusState") -> "StatusState":
        """The state after this record."""

    @classmethod
    @abstractmethod
    def remove(cls, rest: str, state: "StatusState") -> "StatusState":
        """The state after a tombstone under the key `PREFIX + rest`."""


def parse_number(value: Fields, name: str, default: int = -1) -> int:
    """`default` where the field is absent, or is not a number."""
    item = value.get(name, default)
    return item if isinstance(item, int) else default


def parse_text(value: Fields, name: str) -> str | None:
    """None where the field is absent or empty."""
    item = value.get(name)
    return str(item) if item else None
