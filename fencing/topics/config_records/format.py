"""`ringfence-format`: the format of what is written in this cluster, and the oldest one that may still take part.

A version knows one format (`FORMAT`). Raise it with a change that older versions would read wrongly, and write in the
new way only where `may_write` allows it: after every worker has been replaced. Until then a version can be rolled back.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from ringfence.fencing.topics.config_record import ConfigRecord, Fields, parse_integer

if TYPE_CHECKING:
    from ringfence.fencing.topics.cluster_state import ClusterState, Fold

KEY: Final = "ringfence-format"

FORMAT: Final = 1
"""1: all versions since 0.3.0, which is the first that was released."""
OLDEST: Final = 1
"""The oldest format that understands all that this version writes once all workers have its format."""


@dataclass(frozen=True, slots=True)
class FormatRecord(ConfigRecord):
    """format: what all workers understood when it was written; oldest: a worker with less takes nothing."""

    format: int
    oldest: int

    PREFIXES = (KEY,)

    @classmethod
    def parse(cls, prefix: str, rest: str, value: Fields | None) -> "FormatRecord | None":
        if rest:
            return None
        if value is None:
            return UNWRITTEN
        return cls(parse_integer(value, "format"), parse_integer(value, "oldest"))

    def to_key(self) -> str:
        return KEY

    def to_value(self) -> Fields:
        return {"format": self.format, "oldest": self.oldest}

    def apply(self, cluster: "Fold", offset: int) -> None:
        cluster.format = self


UNWRITTEN: Final = FormatRecord(0, 0)
"""Of a cluster whose leaders have written none."""


def refuse_old(record: FormatRecord, own: int) -> str:
    """Return why a worker with this format must take nothing; "" if it may take part."""
    if own >= record.oldest:
        return ""
    return (
        f"This version of Ringfence is too old for this cluster: it knows format {own} of the config topic, and the "
        f"cluster needs {record.oldest} at least. It joins no group, leads nothing and runs no task. Install the "
        "version that the other workers have (docs/upgrades.md)"
    )


def may_write(state: "ClusterState", format_: int) -> bool:
    """Return whether records of this format may be written: all workers understood it, and none goes back behind it."""
    return state.format.format >= format_


def next_format(record: FormatRecord, workers: Iterable[int], own: int, oldest: int) -> FormatRecord:
    """Return the record that a leader writes next, the same one if there is nothing to write.

    workers: the formats of all live workers; own, oldest: the leader's. It raises the format, and never lowers it, when
    all of them know the leader's. The oldest rises with it, so nobody who takes part is shut out.
    """
    formats = [*workers]
    if own <= record.format or not formats or min(formats) < own:
        return record
    return replace(record, format=own, oldest=max(record.oldest, oldest))
