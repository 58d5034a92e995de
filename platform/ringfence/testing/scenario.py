"""What an author says about a connector, so that its claim to be exactly once can be checked."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from ringfence.connectors.api import SourceConnector
from ringfence.fencing.kafka.consumer import LogRecord


class Scenario(ABC):
    """A source that a test fills, and the connector that reads it. Each check makes an instance of its own."""

    connector: ClassVar[type[SourceConnector]]
    """The class to check. The tasks' processes import it by its name, so it must stand in a module."""
    tasks: ClassVar[int] = 1
    """As many tasks as the connector can use in this scenario: with more than one, `tasks.max` is changed, too."""
    records: ClassVar[int] = 2000
    """How many a check begins with: enough for a kill to meet an open transaction."""
    bootstrap: str
    """The brokers that the checks use; set before `config` and `add` are called."""
    reset_reads_again: ClassVar[bool] = True
    """Whether the source still has what was read, so that the connector reads it again without source offsets."""

    grows: ClassVar[bool] = True
    """False where nothing can be added once tasks read: then `add` is called once, for all `records`."""

    def __init__(self, folder: Path, topic: str) -> None:
        """folder: an empty one, for the source; topic: the name of the topic, or the beginning of the names of several.

        Tasks may read and write below `folder`.
        """
        self.folder = folder
        self.topic = topic

    @abstractmethod
    def config(self) -> Mapping[str, str]:
        """The connector's configuration, without `name`, `connector.class` and `tasks.max`."""

    @abstractmethod
    def add(self, count: int) -> Sequence[str]:
        """Put something for about `count` records into the source; what `identify` will say of each of them.

        Called several times, also while tasks read, unless `grows` is False. All that is added must differ.
        """

    def identify(self, record: LogRecord) -> str:
        """What tells a record from all others, as `add` has said it. The text of its value, where this is not
        overridden.
        """
        return (record.value or b"").decode(errors="replace")

    def close(self) -> None:
        """Free what the scenario opened."""
        return
