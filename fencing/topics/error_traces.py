"""The stack trace of a task's error, as its status shows it."""

from typing import Final

NOTE: Final = "Failed on a record: stage "
"""The beginning of the last line of a trace, for readers that only see the trace."""


def error_of(trace: str) -> str:
    """Return the last line of a trace that is not a NOTE; "" for an empty trace."""
    lines = [line.strip() for line in trace.strip().splitlines() if not line.startswith(NOTE)]
    return lines[-1] if lines else ""
