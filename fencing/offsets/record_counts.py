"""How many records an attempt has committed, written in the same transaction that commits them.

A report (`fencing.task.attempt_report`) is sent once a second and is lost with its process. So each transaction
carries the counts in a header of its last source offset, which Kafka Connect and other readers ignore: the counts are
in Kafka if and only if the records are. They are cumulative since the attempt's start, so a reader that misses one
learns it from the next.
"""

import json
from collections.abc import Iterable
from typing import Final, NamedTuple

HEADER: Final = "ringfence.counts"

MOST: Final = 2**53
"""The largest count that is believed: a database's integers have 64 bits, and counts are added up."""

_NAMES: Final = ("task", "generation", "attempt", "records", "skipped", "dead_letters")
_SPAN: Final = "sent"
_COMPACT: Final = json.JSONEncoder(separators=(",", ":"))


class RecordCounts(NamedTuple):
    """records: written to their own topics; skipped: tolerated errors that were written nowhere; dead_letters: written
    to the dead letter topic.
    """

    records: int = 0
    skipped: int = 0
    dead_letters: int = 0

    def plus(self, more: "RecordCounts") -> "RecordCounts":
        return RecordCounts(*(mine + others for mine, others in zip(self, more, strict=True)))

    def most(self, other: "RecordCounts") -> "RecordCounts":
        """Return the larger value of each count. Counts are cumulative, so that is the later one."""
        return RecordCounts(*map(max, self, other))


class AttemptCounts(NamedTuple):
    """What one attempt of one task has committed so far.

    span: how many records, dead letters included, this producer had produced before the transaction, and including it;
    None if an earlier version wrote it. Brokers count the same, by partition, in sequence numbers, so a record can be
    traced to its transaction (`fencing.provenance`).
    """

    task: int
    generation: int
    attempt: int
    counts: RecordCounts
    span: tuple[int, int] | None = None

    @property
    def key(self) -> tuple[int, int, int]:
        return self.task, self.generation, self.attempt


def encode(counts: AttemptCounts) -> list[tuple[str, bytes]]:
    """Return the headers of a source offset."""
    numbers: dict[str, object] = dict(zip(_NAMES, (*counts.key, *counts.counts), strict=True))
    if counts.span is not None:
        numbers[_SPAN] = counts.span
    return [(HEADER, _COMPACT.encode(numbers).encode())]


def decode(headers: Iterable[tuple[str, bytes | None]]) -> AttemptCounts | None:
    """Parse the headers of a source offset; None if they have no counts, or invalid ones."""
    for name, value in headers:
        if name == HEADER:
            try:
                numbers = json.loads(value or b"null")
                task, generation, attempt, *counts = (numbers[each] for each in _NAMES)
                span = numbers.get(_SPAN)
            except (ValueError, KeyError, TypeError, RecursionError):
                return None
            attempt_counts = AttemptCounts(task, generation, attempt, RecordCounts(*counts), _range(span))
            return attempt_counts if all(map(_is_count, (*attempt_counts.key, *counts))) else None
    return None


def _range(value: object) -> tuple[int, int] | None:
    match value:
        case [int(before), int(after)] if 0 <= before <= after <= MOST:
            return before, after
        case _:
            return None


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST
