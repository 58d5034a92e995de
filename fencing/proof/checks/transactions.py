"""Whether each transaction's records are visible: as many as its source offsets count."""

from collections.abc import Mapping

from ringfence.connectors.plural_forms import write_count
from ringfence.fencing.proof.alignment import Alignment
from ringfence.fencing.proof.check_result import Check, Result
from ringfence.fencing.proof.offset_commits import Attempt
from ringfence.fencing.proof.tally import ProofTally


def check_transactions(
    aligned: Mapping[Attempt, Alignment], letters: Mapping[Attempt, Alignment], tallied: ProofTally
) -> Check:
    """Check that the records of each transaction are visible together with its source offsets, as many as it counts."""
    name = "transactions"
    bad = [
        _complaint(attempt, one, what)
        for what, attempts in (("records", aligned), ("dead letters", letters))
        for attempt, one in sorted(attempts.items())
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
    attempts = write_count(len(judged), "attempt")
    text = f"{write_count(count, 'record')} visible, and as many counted by the transactions of {attempts}"
    if left_out:
        text += f"; {write_count(left_out, 'attempt')} left out: records deleted, or only just begun"
    return Check(name, Result.OK, text)


def _without_counts(tallied: ProofTally) -> str:
    if tallied.commits.source:
        return "The transactions carry no counts: the input is a consumer group, or an older version wrote them"
    return "No committed transaction with source offsets is in the offsets topic"


def _complaint(attempt: Attempt, one: Alignment, what: str) -> str:
    task, generation, number = attempt
    who = f"task {task}, generation {generation}, attempt {number}"
    amount = f"{-one.difference:,} {what} missing" if one.difference < 0 else f"{one.difference:,} {what} too many"
    return f"{amount} ({who}: its transactions count {one.counted:,}, {one.visible:,} are visible)"
