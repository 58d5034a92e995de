"""Derives from the counts what is proved, and what is unknown, check by check. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeVar

from ringfence.connectors.plural_forms import write_count
from ringfence.fencing.proof.alignment import Aligned
from ringfence.fencing.proof.check import Check, Result
from ringfence.fencing.proof.offset_commits import Attempt, OffsetCommits
from ringfence.fencing.proof.positions import PositionTally
from ringfence.fencing.proof.topic_tally import Producer, TopicTally

Key = TypeVar("Key", bound=Any)


@dataclass(frozen=True, slots=True)
class Tallied:
    """The counts of a proof. records: by topic; letters: those of the connector's dead letter queue, if it has one.

    ids: the producer ids of the connector's transactional ids, from the coordinators; None without the permission.
    deleted: what retention or compaction has deleted, for messages.
    """

    commits: OffsetCommits
    records: Mapping[str, TopicTally]
    letters: Mapping[str, TopicTally] = field(default_factory=dict)
    ids: frozenset[int] | None = None
    deleted: Sequence[str] = ()

    def own(self, who: Producer) -> bool:
        """Return whether it is a producer of the connector's tasks."""
        return who in self.commits.producers or (self.ids is not None and who.producer_id in self.ids)


def check_transactions(
    aligned: Mapping[Attempt, Aligned], letters: Mapping[Attempt, Aligned], tallied: Tallied
) -> Check:
    """Check that the records of each transaction are visible together with its source offsets, as many as it counts."""
    name = "transactions"
    bad = [
        _complaint(attempt, one, what)
        for what, found in (("records", aligned), ("dead letters", letters))
        for attempt, one in sorted(found.items())
        if one.difference
    ]
    if bad:
        text = "Do not rely on the topic: compare it with the source, and report what the log of that time says"
        return Check(name, Result.FAILED, "; ".join(bad[:5]), text)
    if not aligned:
        return Check(name, Result.UNKNOWN, _without_counts(tallied))
    judged = [one for one in aligned.values() if one.judged]
    left_out = len(aligned) - len(judged)
    if not judged:
        return Check(name, Result.UNKNOWN, "The records of all transactions that still can be read were deleted")
    count = sum(one.visible for one in judged)
    text = f"{_records(count)} visible, and as many counted by the transactions of {_count(len(judged), 'attempt')}"
    if left_out:
        text += f"; {_count(left_out, 'attempt')} left out: records deleted, or only just begun"
    return Check(name, Result.OK, text)


def _without_counts(tallied: Tallied) -> str:
    if tallied.commits.source:
        return "The transactions carry no counts: the input is a consumer group, or an older version wrote them"
    return "No committed transaction with source offsets is in the offsets topic"


def _complaint(attempt: Attempt, one: Aligned, what: str) -> str:
    task, generation, number = attempt
    who = f"task {task}, generation {generation}, attempt {number}"
    amount = f"{-one.difference:,} {what} missing" if one.difference < 0 else f"{one.difference:,} {what} too many"
    return f"{amount} ({who}: its transactions count {one.counted:,}, {one.visible:,} are visible)"


def check_offsets_with_records(tallied: Tallied) -> Check:
    """Check that no record of the connector's producers is visible without source offsets."""
    name = "records without source offsets"
    bare = {
        who: written.visible
        for tally in (*tallied.records.values(), *tallied.letters.values())
        for who, written in tally.producers.items()
        if written.visible and tallied.own(who) and who not in tallied.commits.producers
    }
    if not bare:
        if tallied.ids is None:
            text = "The connector's producer ids are unknown: its admin client may not describe its transactional ids"
            return Check(name, Result.UNKNOWN, text, "Grant it Describe on them")
        return Check(name, Result.OK, "None: each producer of this connector has committed source offsets, too")
    text = (
        f"{_records(sum(bare.values()))} of {_count(len(bare), 'producer epoch')} without a source offset in the topic"
    )
    if tallied.commits.gaps:
        return Check(name, Result.UNKNOWN, f"{text}: compaction has removed older source offsets")
    return Check(
        name, Result.FAILED, text, "Another program uses a transactional id of this connector: find and end it"
    )


def check_order(tallied: Tallied) -> Check:
    """Check that no older generation or attempt has written after a newer one began, in any partition."""
    name = "older generations"
    bad = []
    partitions = 0
    for topic, tally in (*tallied.records.items(), *tallied.letters.items()):
        by_partition: dict[int, list[tuple[int, int, Attempt]]] = {}
        for (partition, who), (first, last) in tally.spans.items():
            if attempt := tallied.commits.producers.get(who):
                by_partition.setdefault(partition, []).append((first, last, attempt))
        partitions += len(by_partition)
        bad += [f"{each} in {topic}" for spans in by_partition.values() for each in _find_late(spans)]
    for who in tallied.commits.strangers:
        bad.append(f"producer id {who.producer_id}, epoch {who.epoch} commits for two attempts")
    if bad:
        text = "Two attempts were not kept apart: report it with the log of that time"
        return Check(name, Result.FAILED, "; ".join(bad[:5]), text)
    if not partitions:
        return Check(name, Result.UNKNOWN, "No record can be attributed to a generation")
    return Check(name, Result.OK, f"None of them wrote after its successor began, in {_count(partitions, 'partition')}")


def _find_late(spans: Sequence[tuple[int, int, Attempt]]) -> list[str]:
    """Return the overlaps: generations, and attempts of one task, must not have any; tasks of one generation may."""
    found = []
    generations: dict[int, tuple[int, int]] = {}
    for first, last, (_, generation, _) in spans:
        low, high = generations.get(generation, (first, last))
        generations[generation] = min(low, first), max(high, last)
    found += [
        f"generation {a} wrote at offset {last}, after generation {b} began" for a, b, last in _overlaps(generations)
    ]
    for task in sorted({attempt[0] for _, _, attempt in spans}):
        attempts: dict[tuple[int, int], tuple[int, int]] = {}
        for first, last, (number, generation, attempt) in spans:
            if number == task:
                low, high = attempts.get((generation, attempt), (first, last))
                attempts[generation, attempt] = min(low, first), max(high, last)
        same = [(a, b, last) for a, b, last in _overlaps(attempts) if a[0] == b[0]]
        found += [
            f"task {task}: attempt {a[1]} wrote at offset {last}, after attempt {b[1]} began" for a, b, last in same
        ]
    return found


def _overlaps(ranges: Mapping[Key, tuple[int, int]]) -> list[tuple[Key, Key, int]]:
    """Return each range that ends after the next one began: its key, the next one's, and its last offset."""
    ordered = sorted(ranges.items(), key=lambda each: each[1])
    return [(key, after, last) for (key, (_, last)), (after, (first, _)) in pairwise(ordered) if last >= first]


def check_others(tallied: Tallied) -> Check:
    """Report whether other producers write to the same topics."""
    name = "other producers"
    count = count_others(tallied)
    if not count:
        return Check(name, Result.OK, "None: every record in the topics is this connector's")
    text = f"{_records(count)} by producers that are not this connector's"
    if tallied.commits.gaps or tallied.ids is None:
        text += ", or by attempts whose source offsets were compacted away"
    return Check(name, Result.NOTE, text, "They are not counted. Nothing is wrong where others may write there")


def count_others(tallied: Tallied) -> int:
    """Count the visible records of other producers, including those without transactions."""
    return sum(
        tally.plain + sum(written.visible for who, written in tally.producers.items() if not tallied.own(who))
        for tally in tallied.records.values()
    )


def check_positions(tally: PositionTally | None, why_not: str) -> Check:
    """Check for gaps and duplicates by the position in the source that the records contain."""
    name = "gaps and doubles"
    if tally is None:
        return Check(name, Result.UNKNOWN, why_not)
    if tally.full:
        return Check(name, Result.UNKNOWN, "The records are in too little order for their places to be kept in memory")
    if tally.records and tally.unnamed == tally.records:
        return Check(name, Result.UNKNOWN, "No record names its place in the source: a transform or converter hides it")
    found = tally.gaps()
    parts = []
    if tally.doubles:
        parts.append(f"{_count(tally.doubles, 'double')} ({'; '.join(tally.doubled[:3])})")
    if found is not None and found[0]:
        parts.append(f"{_count(found[0], 'missing record')} ({'; '.join(found[1][:3])})")
    if parts:
        text = "Expected only where source offsets were changed by hand, or where records are dropped or deleted"
        return Check(name, Result.FAILED, ", ".join(parts), text)
    text = f"{_records(tally.records - tally.unnamed)} by their place in the source: none twice"
    text += (
        ", none missing" if found is not None else "; gaps cannot be told, since the numbers need not follow each other"
    )
    if tally.unnamed:
        text += f"; {_records(tally.unnamed)} without a place"
    return Check(name, Result.OK, text)


def check_deleted(tallied: Tallied) -> Check:
    """Report what was deleted and so cannot be counted."""
    if not tallied.deleted:
        return Check("deleted records", Result.OK, "None: the topics hold everything from their first offset on")
    text = f"Deleted by retention or compaction, and not counted: {'; '.join(tallied.deleted[:5])}"
    return Check("deleted records", Result.NOTE, text)


def check_source(counted: int | None, of_source: int | None, why_not: str) -> Check:
    """Compare the source's own number of records up to the committed offsets with the transactions' counts."""
    name = "source"
    if of_source is None or counted is None:
        return Check(name, Result.UNKNOWN, why_not)
    if of_source == counted:
        return Check(
            name, Result.OK, f"The source holds {_records(of_source)} up to the committed offsets; as many came"
        )
    text = f"The source holds {_records(of_source)} up to the committed offsets, {counted:,} came"
    return Check(
        name, Result.FAILED, text, "Expected only where source offsets were changed by hand, or the source was"
    )


def _count(number: int, what: str) -> str:
    return write_count(number, what)


def _records(number: int) -> str:
    return _count(number, "record")
