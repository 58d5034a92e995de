"""The errors a plugin raises on purpose."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A record that could not be transformed or converted by a task that does so itself, as Java's do.

    stage: in Kafka Connect's words; step: the place of the transform in `transforms`, -1 for a converter;
    source_partition, source_offset: as JSON; value: as text.
    """

    stage: str
    step: int
    class_name: str
    topic: str
    source_partition: str
    source_offset: str
    value: str


class ConnectorError(Exception):
    """The connector or task cannot go on. It becomes FAILED, with this message and its trace in the status.

    record: the one it failed on, where that is known.
    """

    record: BadRecord | None = None


class RetriableError(ConnectorError):
    """The same call may succeed a moment later: `poll` is called again after a pause, nothing is aborted."""
