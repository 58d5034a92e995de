"""One of preflight's checks: its result, what it says, and what to do about it."""

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Final


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
