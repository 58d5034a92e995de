"""What an author provides so that a connector's exactly-once support can be checked."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from ringfence.connectors.api import SourceConnector, SourceRecord
from ringfence.fencing.kafka.consumer import LogRecord
from ringfence.testing.oddities import Oddity


class Scenario(ABC):
    """A source that a test fills, and the connector that reads it. Each check creates a new instance."""

    connector: ClassVar[type[SourceConnector]]
    """The class to check. The tasks' processes import it by its name, so it must be in a module."""
    tasks: ClassVar[int] = 1
    """The maximum number of tasks that the connector can use here: if more than one, `tasks.max` is changed, too."""
    records: ClassVar[int] = 2000
    """How many records a check begins with: enough for a kill to meet an open transaction."""
    bootstrap: str
    """The brokers that the checks use; set before `config` and `add` are called."""
    reset_reads_again: ClassVar[bool] = True
    """Whether the source still has what was read, so that the connector reads it again without source offsets."""

    grows: ClassVar[bool] = True
    """False if nothing can be added once tasks read: then `add` is called once, for all `records`."""

    def __init__(self, folder: Path, topic: str) -> None:
        """folder: an empty one, for the source. topic: the name of the topic, or the prefix of several.

        Tasks may read and write below `folder`.
        """
        self.folder = folder
        self.topic = topic

    @abstractmethod
    def config(self) -> Mapping[str, str]:
        """Return the connector's configuration, without `name`, `connector.class` and `tasks.max`."""

    @abstractmethod
    def add(self, count: int) -> Sequence[str]:
        """Add about `count` records to the source; return what `identify` will return for each of them.

        Called several times, also while tasks read, unless `grows` is False. All records must differ.
        """

    def identify(self, record: LogRecord) -> str:
        """Return the identity of a record, as `add` has returned it. By default, the text of its value."""
        return (record.value or b"").decode(errors="replace")

    def add_value(self, oddity: Oddity) -> bool:
        """Add a record with this rare value; return False if the source has no such type.

        Called in place of `add`, for one value after another. By default nothing is added, and the check is skipped.
        """
        return False

    def value_of(self, record: SourceRecord) -> object:
        """Return the value that `add_value` has added, from its record. By default, the record's whole value.

        Tasks must return the records in the order in which they were added.
        """
        return record.value

    def close(self) -> None:
        """Free what the scenario opened."""
        return
