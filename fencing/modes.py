"""Worker modes, `exactly.once.source.support` (KIP-618, "Worker configuration" and "Rolling upgrade"). Pure.

In every mode, the leader writes the config topic in transactions and runs fencing rounds. So one rolling restart is
enough to go from `disabled` to `enabled`; `preparing` is accepted, as in Kafka Connect. A task runs in the mode of the
worker that it is assigned to: exactly once if `enabled`, otherwise at least once, without transactions.
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
    """Parse the mode that another worker reports. A mode that this release does not know guarantees nothing."""
    return Mode(text) if text in list(Mode) else Mode.DISABLED


def lagging(modes: Iterable[tuple[str, str]]) -> str:
    """Return what a cluster of (worker, mode) does not guarantee; "" if all live workers are in one mode.

    It names the workers that lag behind: those that are not `enabled` if some are, else those still `disabled`.
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
        f"Not enabled: {behind}. Tasks on these workers are at least once: records may arrive twice. A task that loses "
        "contact may continue beside its successor, since nothing can fence it. Fencing rounds and writes to the "
        "config topic are not affected. Restart these workers with exactly.once.source.support=enabled"
    )
