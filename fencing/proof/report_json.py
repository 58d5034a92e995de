"""The report of a proof as JSON: for the API, for a file, and for pages. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ringfence.fencing.proof.check_result import Check
from ringfence.fencing.proof.checks.other_producers import count_others
from ringfence.fencing.proof.count import ProofCounts
from ringfence.fencing.proof.tally import ProofTally
from ringfence.fencing.proof.topic_tally import Fate, TopicTally
from ringfence.fencing.proof.verdict import verdict

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
