"""Whether the source itself counts as many records as were committed."""

from ringfence.connectors.plural_forms import write_count
from ringfence.fencing.proof.check_result import Check, Result


def check_source(counted: int | None, of_source: int | None, why_not: str) -> Check:
    """Compare the source's own number of records up to the committed offsets with the transactions' counts."""
    name = "source"
    if of_source is None or counted is None:
        return Check(name, Result.UNKNOWN, why_not)
    held = f"The source holds {write_count(of_source, 'record')} up to the committed offsets"
    if of_source == counted:
        return Check(name, Result.OK, f"{held}; as many came")
    text = f"{held}, {counted:,} came"
    return Check(
        name, Result.FAILED, text, "Expected only where source offsets were changed by hand, or the source was"
    )
