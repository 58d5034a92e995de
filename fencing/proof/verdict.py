"""The verdict of a proof: its checks, a function for each, and what they prove, refute or leave unknown. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, TypeVar

from ringfence.connectors.plural_forms import write_count
from ringfence.fencing.proof.alignment import Alignment, Check, ProofTally, Result
from ringfence.fencing.proof.count import ProofCounts
from ringfence.fencing.proof.positions import PositionTally
from ringfence.fencing.proof.tallies import Attempt, Fate, Producer, TopicTally


def check_deleted(tally: ProofTally) -> Check:
    """Report what was deleted and so cannot be counted."""
    if not tally.deletions:
        return Check("deleted records", Result.OK, "None: the topics hold everything from their first offset on")
    text = f"Deleted by retention or compaction, and not counted: {'; '.join(tally.deletions[:5])}"
    return Check("deleted records", Result.NOTE, text)


def check_positions(tally: PositionTally | None, why_not: str) -> Check:
    """Check for gaps and duplicates by the position in the source that the records contain."""
    name = "gaps and doubles"
    if tally is None:
        return Check(name, Result.UNKNOWN, why_not)
    if tally.full:
        return Check(
            name, Result.UNKNOWN, "The records are too far out of order: their positions exceed the memory limit"
        )
    if tally.records and tally.unnamed == tally.records:
        return Check(name, Result.UNKNOWN, "No record names its place in the source: a transform or converter hides it")
    gaps = tally.gaps()
    parts = []
    if tally.doubles:
        parts.append(f"{write_count(tally.doubles, 'double')} ({'; '.join(tally.first_doubles[:3])})")
    if gaps is not None and gaps[0]:
        parts.append(f"{write_count(gaps[0], 'missing record')} ({'; '.join(gaps[1][:3])})")
    if parts:
        text = "Expected only where source offsets were changed by hand, or where records are dropped or deleted"
        return Check(name, Result.FAILED, ", ".join(parts), text)
    text = f"{write_count(tally.records - tally.unnamed, 'record')} by their place in the source: none twice"
    text += (
        ", none missing" if gaps is not None else "; gaps cannot be detected, since the numbers need not be consecutive"
    )
    if tally.unnamed:
        text += f"; {write_count(tally.unnamed, 'record')} without a place"
    return Check(name, Result.OK, text)


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


def check_others(counts: ProofTally) -> Check:
    """Report whether other producers write to the same topics."""
    name = "other producers"
    count = count_others(counts)
    if not count:
        return Check(name, Result.OK, "None: every record in the topics is this connector's")
    text = f"{write_count(count, 'record')} by producers that are not this connector's"
    if counts.commits.gaps or counts.ids is None:
        text += ", or by attempts whose source offsets were compacted away"
    return Check(name, Result.NOTE, text, "They are not counted. This is no error if others may write to the topics")


def count_others(counts: ProofTally) -> int:
    """Count the visible records of other producers, including those without transactions."""
    return sum(
        tally.plain
        + sum(part.records for part in tally.parts if part.fate is Fate.VISIBLE and not counts.own(part.who))
        for tally in counts.records.values()
    )


def check_offsets_with_records(counts: ProofTally) -> Check:
    """Check that no record of the connector's producers is visible without source offsets."""
    name = "records without source offsets"
    bare: Counter[Producer] = Counter()
    for tally in (*counts.records.values(), *counts.letters.values()):
        for part in tally.parts:
            if part.fate is Fate.VISIBLE and counts.own(part.who) and part.who not in counts.commits.producers:
                bare[part.who] += part.records
    if not bare:
        if counts.ids is None:
            text = "The connector's producer ids are unknown: its admin client may not describe its transactional ids"
            return Check(name, Result.UNKNOWN, text, "Grant it Describe on them")
        return Check(name, Result.OK, "None: each producer of this connector has committed source offsets, too")
    producers = write_count(len(bare), "producer epoch")
    text = f"{write_count(sum(bare.values()), 'record')} of {producers} without a source offset in the topic"
    if counts.commits.gaps:
        return Check(name, Result.UNKNOWN, f"{text}: compaction has removed older source offsets")
    return Check(
        name, Result.FAILED, text, "Another program uses a transactional id of this connector: find and end it"
    )


def check_source(count: int | None, of_source: int | None, why_not: str) -> Check:
    """Compare the source's own number of records up to the committed offsets with the transactions' counts."""
    name = "source"
    if of_source is None or count is None:
        return Check(name, Result.UNKNOWN, why_not)
    start = f"The source holds {write_count(of_source, 'record')} up to the committed offsets"
    if of_source == count:
        return Check(name, Result.OK, f"{start}; as many came")
    text = f"{start}, {count:,} came"
    return Check(
        name, Result.FAILED, text, "Expected only where source offsets were changed by hand, or the source was"
    )


def check_transactions(
    alignments: Mapping[Attempt, Alignment], letters: Mapping[Attempt, Alignment], counts: ProofTally
) -> Check:
    """Check that the records of each transaction are visible together with its source offsets, as many as it counts."""
    name = "transactions"
    bad = [
        _complaint(attempt, one, what)
        for what, attempts in (("records", alignments), ("dead letters", letters))
        for attempt, one in sorted(attempts.items())
        if one.difference
    ]
    if bad:
        text = "Do not rely on the topic: compare it with the source, and report what the log of that time says"
        return Check(name, Result.FAILED, "; ".join(bad[:5]), text)
    if not alignments:
        return Check(name, Result.UNKNOWN, _without_counts(counts))
    comparable = [one for one in alignments.values() if one.comparable]
    left_out = len(alignments) - len(comparable)
    if not comparable:
        return Check(name, Result.UNKNOWN, "The transactions can still be read, but their records were deleted")
    count = sum(one.visible for one in comparable)
    attempts = write_count(len(comparable), "attempt")
    text = f"{write_count(count, 'record')} visible, and as many counted by the transactions of {attempts}"
    if left_out:
        text += f"; {write_count(left_out, 'attempt')} left out: records deleted, or only just begun"
    return Check(name, Result.OK, text)


def _without_counts(counts: ProofTally) -> str:
    if counts.commits.source:
        return "The transactions carry no counts: the input is a consumer group, or an older version wrote them"
    return "No committed transaction with source offsets is in the offsets topic"


def _complaint(attempt: Attempt, one: Alignment, what: str) -> str:
    task, generation, number = attempt
    who = f"task {task}, generation {generation}, attempt {number}"
    amount = f"{-one.difference:,} {what} missing" if one.difference < 0 else f"{one.difference:,} {what} too many"
    return f"{amount} ({who}: its transactions count {one.total:,}, {one.visible:,} are visible)"


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
