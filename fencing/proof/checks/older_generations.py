"""Whether an older generation or attempt wrote after a newer one began."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeVar

from ringfence.connectors.plural_forms import write_count
from ringfence.fencing.proof.alignment import Check, ProofTally, Result
from ringfence.fencing.proof.offset_commits import Attempt

Key = TypeVar("Key", bound=Any)


def check_order(counts: ProofTally) -> Check:
    """Check that no older generation or attempt has written after a newer one began, in any partition."""
    name = "older generations"
    bad = []
    partitions = 0
    for topic, tally in (*counts.records.items(), *counts.letters.items()):
        by_partition: dict[int, dict[Attempt, tuple[int, int]]] = {}
        for part in tally.parts:
            if attempt := counts.commits.producers.get(part.who):
                spans = by_partition.setdefault(part.partition, {})
                low, high = spans.get(attempt, (part.first, part.last))
                spans[attempt] = min(low, part.first), max(high, part.last)
        partitions += len(by_partition)
        bad += [
            f"{each} in {topic}"
            for spans in by_partition.values()
            for each in _find_late([(first, last, attempt) for attempt, (first, last) in spans.items()])
        ]
    for who in counts.commits.strangers:
        bad.append(f"producer id {who.producer_id}, epoch {who.epoch} commits for two attempts")
    if bad:
        text = "Fencing did not separate two attempts: report it, with the logs of that time"
        return Check(name, Result.FAILED, "; ".join(bad[:5]), text)
    if not partitions:
        return Check(name, Result.UNKNOWN, "No record can be attributed to a generation")
    return Check(
        name, Result.OK, f"None of them wrote after its successor began, in {write_count(partitions, 'partition')}"
    )


def _find_late(spans: Sequence[tuple[int, int, Attempt]]) -> list[str]:
    """Return the overlaps: generations, and attempts of one task, must not have any; tasks of one generation may."""
    messages = []
    generations: dict[int, tuple[int, int]] = {}
    for first, last, (_, generation, _) in spans:
        low, high = generations.get(generation, (first, last))
        generations[generation] = min(low, first), max(high, last)
    messages += [
        f"generation {a} wrote at offset {last}, after generation {b} began" for a, b, last in _overlaps(generations)
    ]
    for task in sorted({attempt[0] for _, _, attempt in spans}):
        attempts: dict[tuple[int, int], tuple[int, int]] = {}
        for first, last, (number, generation, attempt) in spans:
            if number == task:
                low, high = attempts.get((generation, attempt), (first, last))
                attempts[generation, attempt] = min(low, first), max(high, last)
        same = [(a, b, last) for a, b, last in _overlaps(attempts) if a[0] == b[0]]
        messages += [
            f"task {task}: attempt {a[1]} wrote at offset {last}, after attempt {b[1]} began" for a, b, last in same
        ]
    return messages


def _overlaps(ranges: Mapping[Key, tuple[int, int]]) -> list[tuple[Key, Key, int]]:
    """Return each range that ends after the next one began: its key, the next one's, and its last offset."""
    items = sorted(ranges.items(), key=lambda each: each[1])
    return [(key, after, last) for (key, (_, last)), (after, (first, _)) in pairwise(items) if last >= first]
