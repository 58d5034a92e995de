"""Whether each transaction's records are visible: as many as its source offsets count."""

from collections.abc import Mapping

from ringfence.connectors.plural_forms import write_count
from ringfence.fencing.proof.alignment import Alignment, Check, ProofTally, Result
from ringfence.fencing.proof.offset_commits import Attempt


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
