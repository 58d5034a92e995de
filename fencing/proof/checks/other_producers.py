"""Whether others write to the connector's topics, too."""

from ringfence.connectors.plural_forms import write_count
from ringfence.fencing.proof.alignment import Check, ProofTally, Result
from ringfence.fencing.proof.topic_tally import Fate


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
