"""Finds gaps and duplicates by the records' positions in the source, if the connector declares them. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

import orjson

from ringfence.connectors.api import PositionPaths
from ringfence.fencing.share.offset_ranges import Ranges

MOST_RANGES: Final = 1_000_000
_MOST_EXAMPLES: Final = 20


Headers = Sequence[tuple[str, bytes | None]]


def find_number(path: str, key: bytes | None, value: bytes | None, headers: Headers) -> object:
    """Return the number at a path such as `value.seqno`; None if there is none."""
    where, _, rest = path.partition(".")
    if where == "headers":
        name, _, rest = rest.partition(".")
        data = next((content for each, content in headers if each == name), None)
    else:
        data = key if where == "key" else value
    return _walk(_load(data), rest)


def _load(data: bytes | None) -> object:
    try:
        value = orjson.loads(data or b"null")
    except orjson.JSONDecodeError:
        return (data or b"").decode("utf-8", "replace")
    # JsonConverter with schemas wraps each value.
    return value["payload"] if isinstance(value, dict) and value.keys() == {"schema", "payload"} else value


def _walk(value: object, path: str) -> object:
    for name in filter(None, path.split(".")):
        value = value.get(name) if isinstance(value, dict) else None
    return value


@dataclass(slots=True)
class PositionTally:
    """Folds every visible record of the connector's topics. unnamed: the number of records without a position."""

    how: PositionPaths
    records: int = 0
    unnamed: int = 0
    doubles: int = 0
    first_doubles: list[str] = field(default_factory=list)
    """The first duplicates, for messages: sequence, number and the place of the later one."""
    full: bool = False
    """The records were too unordered for the memory limit: nothing more is checked."""
    _sequences: dict[str, Ranges] = field(default_factory=dict)

    def take(
        self, topic: str, partition: int, offset: int, key: bytes | None, value: bytes | None, headers: Headers
    ) -> None:
        """Apply the next visible record."""
        self.records += 1
        number = find_number(self.how.number, key, value, headers)
        if isinstance(number, str) and number.lstrip("-").isdecimal():
            number = int(number)
        if not isinstance(number, int) or isinstance(number, bool):
            self.unnamed += 1
            return
        names = [find_number(path, key, value, headers) for path in self.how.sequence]
        if self.full or any(name is None for name in names):
            self.unnamed += 1
            return
        sequence = "/".join(map(str, names))
        numbers = self._sequences.setdefault(sequence, Ranges())
        if number in numbers:
            self.doubles += 1
            if len(self.first_doubles) < _MOST_EXAMPLES:
                place = f"{sequence}: " if sequence else ""
                self.first_doubles.append(f"{place}{number} again in {topic}, partition {partition}, offset {offset}")
        else:
            numbers.add(number, number)
            self.full = sum(map(len, self._sequences.values())) > MOST_RANGES if len(numbers) > 1000 else False

    def gaps(self) -> tuple[int, list[str]] | None:
        """Return how many numbers are missing between the first and the last of each sequence, and the first of them;
        None if numbers need not be consecutive."""
        if not self.how.consecutive:
            return None
        missing = 0
        examples: list[str] = []
        for sequence, numbers in sorted(self._sequences.items()):
            ranges = list(numbers)
            for (_, last), (first, _) in pairwise(ranges):
                missing += first - last - 1
                if len(examples) < _MOST_EXAMPLES:
                    name = f"{sequence}: " if sequence else ""
                    examples.append(f"{name}{last + 1}" + (f" to {first - 1}" if first - last > 2 else ""))
        return missing, examples

    def sequences(self) -> list[tuple[str, int, int]]:
        """Return name, first and last number of each sequence."""
        pairs: Iterable[tuple[str, Ranges]] = sorted(self._sequences.items())
        return [(name, next(iter(numbers))[0], numbers.end - 1) for name, numbers in pairs]


def parse_declaration(declaration: Any) -> PositionPaths | None:
    """Parse a connector's declaration, as a plugin process sends it."""
    if not declaration:
        return None
    return PositionPaths(
        str(declaration["number"]), tuple(map(str, declaration["sequence"])), bool(declaration["consecutive"])
    )
