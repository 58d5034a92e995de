"""One claim of a proof. Pure."""

from dataclasses import dataclass
from enum import StrEnum


class Result(StrEnum):
    """UNKNOWN: it cannot be counted, and the message says why. NOTE: it is not a fault of the connector."""

    OK = "ok"
    FAILED = "failed"
    UNKNOWN = "unknown"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Check:
    """One claim. remedy: what to do about it, "" if there is nothing to do."""

    name: str
    result: Result
    message: str
    remedy: str = ""
