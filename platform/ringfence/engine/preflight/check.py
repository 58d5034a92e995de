"""One of preflight's checks: its result, what it says, and what to do about it; and a check for a permission. Pure."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Final

from ringfence.connectors.sdk.names import list_first
from ringfence.fencing.kafka.permissions import Permission


class Result(StrEnum):
    """The result of a check."""

    OK = "ok"
    FAILED = "failed"
    UNKNOWN = "unknown"


MOST_NAMED: Final = 5
"""How many topics, ids or workers a message names."""


@dataclass(frozen=True, slots=True)
class Check:
    """One finding. key: the setting it belongs to, if any; remedy: what to do if it is not ok.

    decides: if it failed, the connector cannot work here, so validation refuses it (`preflight.validation_errors`).
    Others are warnings: they can be fixed without changing the configuration, or only concern the worker.
    """

    name: str
    result: Result
    message: str
    remedy: str = ""
    key: str = ""
    decides: bool = False

    def as_json(self) -> dict[str, object]:
        return {**asdict(self), "result": str(self.result), "decides": self.refuses}

    @property
    def refuses(self) -> bool:
        """Whether it failed and makes validation refuse the configuration."""
        return self.decides and self.result is Result.FAILED


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
