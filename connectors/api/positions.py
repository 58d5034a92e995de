"""How the records of a connector name their place in the source, for a count of gaps and doubles."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PositionPaths:
    """Where a record, as it stands in Kafka, names its place in the source.

    number: the path of an integer that no two records of a sequence share: `key`, `value`, `value.seqno`,
    `headers.position`; keys and values are read as JSON or as text. sequence: the paths of what tells sequences apart,
    such as the number of a task or a file. consecutive: the numbers of a sequence follow each other without a gap.
    """

    number: str
    sequence: tuple[str, ...] = ()
    consecutive: bool = True
