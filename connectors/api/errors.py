"""The errors that a plugin raises."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A record that failed in a task that transforms and converts records itself, as Java tasks do.

    stage: as Kafka Connect names it; step: the index of the transform in `transforms`, -1 for a converter;
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
    """The connector or task cannot continue. It becomes FAILED; the status shows this message and the stack trace.

    record: the record that it failed on, if known.
    """

    record: BadRecord | None = None


class RetriableError(ConnectorError):
    """The same call may succeed later: `poll` is called again after a pause, and nothing is aborted."""
