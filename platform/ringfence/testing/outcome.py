"""The result of a check."""

from collections import Counter
from collections.abc import Iterable, Sequence
from enum import StrEnum

_SHOWN = 5


class CheckFailed(AssertionError):
    """The connector is not exactly once; the message says how, and what to check."""


class CheckSkipped(Exception):
    """The check does not apply to this connector; the message says why."""


class Result(StrEnum):
    """How a check ended."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


def require(condition: object, failure: str) -> None:
    """Raise `CheckFailed` unless the condition holds."""
    if not condition:
        raise CheckFailed(failure)


def compare(expected: Sequence[str], visible: Iterable[str], hint: str) -> None:
    """Raise `CheckFailed` if a record is missing, repeated, or was never added. hint: the likely cause."""
    target, actual = Counter(expected), Counter(visible)
    missing, more = target - actual, actual - target
    if not missing and not more:
        return
    unknown = [name for name in more if name not in target]
    twice = [name for name in more if name in target]
    differences = [
        f"{len(names)} {what}, such as {', '.join(sorted(names)[:_SHOWN])}"
        for names, what in ((list(missing), "missing"), (twice, "too often"), (unknown, "that were never added"))
        if names
    ]
    raise CheckFailed(f"Of {len(expected)} records: {'; '.join(differences)}. {hint}")
