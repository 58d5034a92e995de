"""How the records of a connector name their position in the source, to count gaps and duplicates."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PositionPaths:
    """Where a record in Kafka names its position in the source.

    number: the path of an integer that is unique within its sequence: `key`, `value`, `value.seqno`,
    `headers.position`; keys and values are read as JSON or as text. sequence: the paths that identify a sequence, such
    as the number of a task or a file. consecutive: whether the numbers of a sequence have no gaps.
    """

    number: str
    sequence: tuple[str, ...] = ()
    consecutive: bool = True
