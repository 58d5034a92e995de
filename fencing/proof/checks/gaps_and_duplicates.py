"""Whether records are missing or come twice, by their positions in the source."""

from ringfence.connectors.plural_forms import write_count
from ringfence.fencing.proof.alignment import Check, Result
from ringfence.fencing.proof.positions import PositionTally


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
