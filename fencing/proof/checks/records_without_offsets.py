"""Whether a producer of the connector wrote records without source offsets."""

from collections import Counter

from ringfence.connectors.plural_forms import write_count
from ringfence.fencing.proof.alignment import Check, ProofTally, Result
from ringfence.fencing.proof.topic_tally import Fate, Producer


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
