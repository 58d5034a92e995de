"""Compares records with the lines of their file."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TallyResult:
    """What arrived, compared with the expected lines."""

    expected: int
    arrived: int
    missing: int
    twice: int
    """Records that repeat a line."""
    unknown: int
    """Records that are not a line of the file."""

    @property
    def exactly_once(self) -> bool:
        return self.arrived == self.expected and not (self.missing or self.twice or self.unknown)


class Tally:
    """Takes records as they arrive; all lines of the file are different."""

    def __init__(self, lines: Iterable[bytes]) -> None:
        self._left = set(lines)
        self._expected = len(self._left)
        self._counts: Counter[bytes] = Counter()
        self.arrived = 0

    def add(self, record: bytes) -> None:
        self.arrived += 1
        self._counts[record] += 1
        self._left.discard(record)

    @property
    def complete(self) -> bool:
        """Return whether every line has arrived at least once."""
        return not self._left

    def verdict(self) -> TallyResult:
        lines = self._expected - len(self._left)
        return TallyResult(
            expected=self._expected,
            arrived=self.arrived,
            missing=len(self._left),
            twice=self.arrived - len(self._counts),
            unknown=len(self._counts) - lines,
        )
