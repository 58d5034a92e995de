"""Worker modes, `exactly.once.source.support` (KIP-618, "Worker configuration" and "Rolling upgrade"). Pure.

Every mode's leader writes the config topic in transactions and serves fencing rounds, so one rolling restart leads from
`disabled` to `enabled`; `preparing` is accepted on the way, as in Kafka Connect. A task runs by the mode of the worker
that it is placed on: exactly once in `enabled`, else without transactions and at least once.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

MODE_KEY: Final = "exactly.once.source.support"


class Mode(StrEnum):
    """`exactly.once.source.support`."""

    DISABLED = "disabled"
    PREPARING = "preparing"
    ENABLED = "enabled"


def parse_mode(text: str) -> Mode:
    """A mode that another worker reports. What this release does not know promises nothing."""
    return Mode(text) if text in list(Mode) else Mode.DISABLED


def lagging(modes: Iterable[tuple[str, str]]) -> str:
    """What a cluster of (worker, mode) does not guarantee; empty where every live worker is in one mode.

    Names the workers that lag behind: in a mixed cluster those that are not `enabled`, else those still `disabled`.
    """
    by_mode: dict[str, list[str]] = {}
    for worker, mode in sorted(modes):
        by_mode.setdefault(mode, []).append(worker)
    if len(by_mode) < 2:
        return ""
    if Mode.ENABLED not in by_mode:
        behind = ", ".join(by_mode.get(Mode.DISABLED, []))
        return f"Not yet preparing: {behind}. No task is exactly once before every worker is enabled."
    behind = ", ".join(
        f"{worker} ({mode})" for mode in sorted(by_mode.keys() - {Mode.ENABLED}) for worker in by_mode[mode]
    )
    return (
        f"Not enabled: {behind}. Tasks on these workers are at least once, and records may arrive twice, also from one "
        "that loses contact and goes on beside its successor, which nothing can fence. Fencing rounds and writes to "
        "the config topic are as safe as ever. Restart these workers with exactly.once.source.support=enabled"
    )
