"""What retention or compaction has deleted, so that nobody can count it."""

from ringfence.fencing.proof.alignment import Check, ProofTally, Result


def check_deleted(tally: ProofTally) -> Check:
    """Report what was deleted and so cannot be counted."""
    if not tally.deletions:
        return Check("deleted records", Result.OK, "None: the topics hold everything from their first offset on")
    text = f"Deleted by retention or compaction, and not counted: {'; '.join(tally.deletions[:5])}"
    return Check("deleted records", Result.NOTE, text)
