"""The verdict of a proof: its checks together, and what they prove. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ringfence.fencing.proof.alignment import Check, ProofTally, Result
from ringfence.fencing.proof.checks import (
    check_deleted,
    check_offsets_with_records,
    check_order,
    check_others,
    check_positions,
    check_source,
    check_transactions,
    count_others,
)
from ringfence.fencing.proof.count import ProofCounts
from ringfence.fencing.proof.topic_tally import Fate, TopicTally

EXACT: Final = "exact"
FAILED: Final = "failed"
INCOMPLETE: Final = "incomplete"

_DECIDING: Final = ("transactions", "records without source offsets", "older generations")


def make_checks(counts: ProofCounts, of_source: int | None, no_positions: str, no_source: str) -> list[Check]:
    """Return all checks, the decisive ones first. of_source: the number of records that the source reports."""
    complete = not counts.tally.commits.gaps and not counts.tally.deletions
    count = count_of(counts) if complete else None
    return [
        check_transactions(counts.alignments, counts.letters, counts.tally),
        check_offsets_with_records(counts.tally),
        check_order(counts.tally),
        check_positions(counts.positions, no_positions),
        check_source(count, of_source, no_source if complete else "Older records or source offsets were deleted"),
        check_others(counts.tally),
        check_deleted(counts.tally),
    ]


def count_of(counts: ProofCounts) -> int:
    """Return the transactions' counts of records, dead letters and skipped records, over all readable attempts."""
    return sum(map(sum, counts.tally.commits.totals()))


def verdict(checks: Sequence[Check]) -> str:
    """Return FAILED if any check failed; EXACT if all decisive ones are proved; else INCOMPLETE."""
    if any(each.result is Result.FAILED for each in checks):
        return FAILED
    proved = all(each.result is Result.OK for each in checks if each.name in _DECIDING)
    return EXACT if proved else INCOMPLETE


_MOST_ROWS: Final = 200

Json = dict[str, Any]


def to_json(counts: ProofCounts, checks: Sequence[Check]) -> Json:
    """Return the report as JSON. A count is None if it is unknown."""
    sums, positions = counts.tally, counts.positions
    own, letters = _count_own(sums, sums.records), _count_own(sums, sums.letters)
    complete = bool(sums.commits.producers) or sums.ids is not None
    gaps = positions.gaps() if positions is not None and positions.unnamed < max(1, positions.records) else None
    has_places = positions is not None and not positions.full and positions.unnamed < max(1, positions.records)
    return {
        "verdict": verdict(checks),
        "checks": [
            {"name": each.name, "result": each.result.value, "message": each.message, "remedy": each.remedy}
            for each in checks
        ],
        "counts": {
            "visible": own[Fate.VISIBLE] if complete else None,
            "aborted": own[Fate.ABORTED] if complete else None,
            "open": own[Fate.OPEN] if complete else None,
            "dead_letters": letters[Fate.VISIBLE] if complete else None,
            "transactions": sum(map(len, sums.commits.attempts.values())) or None,
            "others": count_others(sums) if complete else None,
            "doubles": positions.doubles if positions is not None and has_places else None,
            "gaps": gaps[0] if gaps is not None and has_places else None,
        },
        "topics": [_topic(each.topic, each.first, each.end) for each in counts.edges],
        "missing_topics": counts.missing,
        "offsets": [{"partition": each.partition, "offset": each.offset} for each in counts.offsets[:_MOST_ROWS]],
        "source_partitions": len(counts.offsets),
        "attempts": _attempts(counts),
        "positions": [
            {"sequence": name, "first": first, "last": last}
            for name, first, last in (
                positions.sequences()[:_MOST_ROWS] if positions is not None and has_places else ()
            )
        ],
    }


def _count_own(sums: ProofTally, tallies: Mapping[str, TopicTally]) -> Counter[Fate]:
    """Count the records of the connector's producers."""
    counts: Counter[Fate] = Counter()
    for tally in tallies.values():
        for part in tally.parts:
            if sums.own(part.who):
                counts[part.fate] += part.records
    return counts


def _topic(topic: str, first: Mapping[int, int], end: Mapping[int, int]) -> Json:
    return {
        "topic": topic,
        "partitions": [{"partition": p, "first": first[p], "end": end[p]} for p in sorted(end)][:_MOST_ROWS],
        "partition_count": len(end),
    }


def _attempts(counts: ProofCounts) -> list[Json]:
    rows = []
    for attempt, one in sorted(counts.alignments.items(), key=lambda each: (each[0][1], each[0][0], each[0][2]))[
        -_MOST_ROWS:
    ]:
        task, generation, number = attempt
        rows.append(
            {
                "task": task,
                "generation": generation,
                "attempt": number,
                "transactions": len(counts.tally.commits.attempts[attempt]),
                "counted": one.total if one.comparable else None,
                "visible": one.visible if one.comparable else None,
                "difference": one.difference if one.comparable else None,
                "until_ms": one.until_ms if one.comparable else None,
            }
        )
    return rows
