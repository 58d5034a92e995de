"""How a write that the audit trail records has ended."""

from enum import StrEnum


class Outcome(StrEnum):
    """How a write ended. UNKNOWN: it was requested, and its outcome is unknown (or not known yet)."""

    DONE = "done"
    REFUSED = "refused"
    FAILED = "failed"
    UNKNOWN = "unknown"

    @staticmethod
    def of(status: int) -> "Outcome":
        """Return the outcome for an HTTP status. 500 and 504 answer commands with an unknown outcome;
        503 changed nothing.
        """
        if status < 400:
            return Outcome.DONE
        if status in (401, 403, 429):
            return Outcome.REFUSED
        return Outcome.UNKNOWN if status in (500, 502, 504) else Outcome.FAILED
