"""Whether a principal has a permission: one row of the KIP's tables, as a check. Pure."""

from collections.abc import Mapping

from ringfence.connectors.sdk.names import list_first
from ringfence.engine.preflight.check import MOST_NAMED, Check, Result
from ringfence.fencing.kafka.permissions import Permission


def check_granted(
    principal: str,
    operation: str,
    resource: str,
    answers: Mapping[str, Permission],
    key: str = "",
    *,
    decides: bool = True,
) -> Check:
    """Check one row of the KIP's tables. The message names the denied resources."""
    name = f"{principal} {operation} {resource}"
    if resource == "Topic":
        name += f" {' '.join(answers)}"
    denials = [each for each, may in answers.items() if may is Permission.NO]
    if denials:
        text = f"The {principal}'s principal has no {operation} on {resource} {list_first(denials, MOST_NAMED)}."
        remedy = f"Grant {operation} on {resource} {denials[0]}, or on its prefix."
        return Check(name, Result.FAILED, text, remedy, key, decides=decides)
    first = next(iter(answers), "")
    if not answers or Permission.UNKNOWN in answers.values():
        text = f"It is unknown whether the {principal}'s principal has {operation} on {resource} {first}."
        return Check(name, Result.UNKNOWN, text, "Compare with the table in the documentation.", key)
    return Check(name, Result.OK, f"{operation} on {resource} {list_first(list(answers), 1)}.", key=key)
