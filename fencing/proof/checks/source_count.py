"""Whether the source itself counts as many records as were committed."""

from ringfence.connectors.plural_forms import write_count
from ringfence.fencing.proof.alignment import Check, Result


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
