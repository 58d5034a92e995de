"""The verdict of a proof: its checks together, and what they prove. Pure."""

from collections.abc import Sequence
from typing import Final

from ringfence.fencing.proof.check_result import Check, Result
from ringfence.fencing.proof.checks.deleted_records import check_deleted
from ringfence.fencing.proof.checks.gaps_and_duplicates import check_positions
from ringfence.fencing.proof.checks.older_generations import check_order
from ringfence.fencing.proof.checks.other_producers import check_others
from ringfence.fencing.proof.checks.records_without_offsets import check_offsets_with_records
from ringfence.fencing.proof.checks.source_count import check_source
from ringfence.fencing.proof.checks.visible_records import check_transactions
from ringfence.fencing.proof.count import ProofCounts

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
