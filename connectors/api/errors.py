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


class RecordRefused(ConnectorError):
    """A record that `SourceTaskContext.admit` does not admit. too_large: for its topic; again: it may be later.

    The message is for those who run the connector: it may tell of their settings.
    """

    def __init__(self, message: str, *, too_large: bool = False, again: bool = False) -> None:
        super().__init__(message)
        self.too_large = too_large
        self.again = again


class RetriableError(ConnectorError):
    """The same call may succeed later: `poll` is called again after a pause, and nothing is aborted."""
