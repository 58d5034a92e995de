"""One claim of a proof. Pure."""

from dataclasses import dataclass
from enum import StrEnum


class Result(StrEnum):
    """UNKNOWN: it cannot be counted, and the message says why. NOTE: it is no fault of the connector's."""

    OK = "ok"
    FAILED = "failed"
    UNKNOWN = "unknown"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Check:
    """One claim. `remedy`: what to do about it, "" where nothing is to be done."""

    name: str
    result: Result
    message: str
    remedy: str = ""
