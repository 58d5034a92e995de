"""The errors that a plugin raises."""

import re
from dataclasses import dataclass
from typing import Final, Self

_LONGEST_SHAPE: Final = 40
_NAMED_VALUES: Final = re.compile(r"[+-]?(?:NaN|sNaN|Inf|Infinity|null|true|false)(?: BC)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A record that failed in a task that transforms and converts records itself, as Java tasks do.

    stage: as Kafka Connect names it; step: the index of the transform in `transforms`, -1 for a converter;
    source_partition, source_offset: as JSON; value: as text.
    """

    stage: str
    step: int
    class_name: str
    topic: str
    source_partition: str
    source_offset: str
    value: str


class ConnectorError(Exception):
    """The connector or task cannot continue. It becomes FAILED; the status shows this message and the stack trace.

    record: the record that it failed on, if known.
    """

    record: BadRecord | None = None


class RecordRefused(ConnectorError):
    """A record that `SourceTaskContext.admit` does not admit. too_large: for its topic; again: it may be later.

    The message is for those who run the connector: it may tell of their settings.
    """

    def __init__(self, message: str, *, too_large: bool = False, again: bool = False) -> None:
        super().__init__(message)
        self.too_large = too_large
        self.again = again


class DataException(ConnectorError):
    """A value that no record can hold, or a row that cannot be read. The source can read on behind it.

    Each of those who know a part of the place adds it with `at` while the error passes. The message shows the value's
    shape only: those who see the status may not be allowed to read the data.

    reason: what is wrong, without the data; where: the table, file or address; row: the row's key or place; column:
    also a path such as `tags[2]`; remedy: one sentence; settings: the names of those that choose another treatment.
    """

    def __init__(
        self,
        reason: str,
        *,
        value: object = None,
        where: str = "",
        row: str = "",
        column: str = "",
        remedy: str = "",
        settings: tuple[str, ...] = (),
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.value = value
        self.where = where
        self.row = row
        self.column = column
        self.remedy = remedy
        self.settings = settings

    def at(self, *, where: str = "", row: str = "", column: str = "") -> Self:
        """Add what is not known yet, and return the error itself."""
        self.where = self.where or where
        self.row = self.row or row
        self.column = self.column or column
        return self

    def __str__(self) -> str:
        row, column = self.row and f"row {self.row}", self.column and f"column {self.column}"
        place = ", ".join(filter(None, (self.where, row, column)))
        value = "" if self.value is None else f" (a value like {shape_of(self.value)})"
        text = f"{place}: {self.reason}{value}".removeprefix(": ").rstrip(".")
        return f"{text}. {self.remedy}".rstrip()


def shape_of(value: object) -> str:
    """Return the form of a value without its data: digits become 9, letters x. Names such as NaN stay."""
    text = value if isinstance(value, str) else str(value)
    if _NAMED_VALUES.fullmatch(text):
        return text
    shape = "".join(_shape(character) for character in text[:_LONGEST_SHAPE])
    return f"{shape}… of {len(text)} characters" if len(text) > _LONGEST_SHAPE else shape or "''"


def _shape(character: str) -> str:
    if character.isdigit():
        return "9"
    return "x" if character.isalpha() else character if character.isprintable() else "?"


class RetriableError(ConnectorError):
    """The same call may succeed later: `poll` is called again after a pause, and nothing is aborted."""
