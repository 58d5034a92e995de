"""The connector half: it checks the configuration and divides the work among tasks. It moves no data."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Protocol

from ringfence.connectors.api.catalog_entry import CatalogEntry
from ringfence.connectors.api.config_def import ConfigDef
from ringfence.connectors.api.offsets import OffsetReader, SourceOffset, SourcePartition
from ringfence.connectors.api.positions import PositionPaths
from ringfence.connectors.api.task import SourceTask


class ExactlyOnceSupport(StrEnum):
    """A connector's answer to "can you be exactly once with this configuration?" (KIP-618, "Preflight")."""

    SUPPORTED = "SUPPORTED"
    UNSUPPORTED = "UNSUPPORTED"


class ConnectorTransactionBoundaries(StrEnum):
    """A connector's answer to "can you define transactions yourself?" (KIP-618)."""

    SUPPORTED = "SUPPORTED"
    UNSUPPORTED = "UNSUPPORTED"


@dataclass(frozen=True, slots=True)
class Choice:
    """A value that a form offers for a setting, and a few words that help to choose it."""

    value: str
    description: str = ""


class SourceConnectorContext(Protocol):
    """What the framework offers a connector instance."""

    @property
    def offset_reader(self) -> OffsetReader:
        """Committed source offsets of this connector's tasks."""
        ...

    @property
    def trial(self) -> bool:
        """True in a preview: nothing may be changed anywhere, neither at the source nor at the target."""
        ...

    def why_closed(self, topic: str) -> str:
        """Why the connector may not write to the topic, for people; "" where it may.

        Ask before you create or change a topic: records to a closed one fail the task.
        """
        ...

    def warn(self, text: str) -> None:
        """Tell people, in the worker's log and on the connector's page."""
        ...

    def request_task_reconfiguration(self) -> None:
        """The source has changed (a new table, a removed file): ask `task_configs` again, soon. From any thread."""
        ...

    def raise_error(self, error: Exception) -> None:
        """The connector cannot go on watching its source: it is FAILED with this error until it is restarted or
        configured again. Its tasks go on. From any thread, after `start`.
        """
        ...


class SourceConnector(ABC):
    """Describes a source and divides it into tasks. Runs in the plugin process, never beside the record path."""

    version: ClassVar[str] = "0"
    aliases: ClassVar[tuple[str, ...]] = ()
    """Further names for `connector.class`, such as the Java class that this connector is a twin of."""
    catalog: ClassVar[CatalogEntry | None] = None
    """How the catalog shows this connector; None: by its class name and its documentation."""
    preview_while_running: ClassVar[bool] = False
    """Several tasks may read the same at once, and `start` and `poll` of a trial change nothing at the source: a
    preview may read beside the running tasks of this connector."""
    context: SourceConnectorContext
    """Set by the framework before `start`."""

    @classmethod
    @abstractmethod
    def config_def(cls) -> ConfigDef:
        """The connector's own settings; the framework adds the common ones (`name`, `tasks.max`, converters, ...)."""

    @classmethod
    @abstractmethod
    def task_class(cls) -> type[SourceTask]:
        """The task that reads this source. Must be importable by its module path on every executor."""

    @abstractmethod
    def start(self, config: Mapping[str, str]) -> None:
        """Take the configuration; may begin to watch the source for changes on a thread of its own."""

    @abstractmethod
    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """At most `max_tasks` task configurations, string to string, in a stable order.

        The framework adds `task.class`. An empty list means that there is nothing to read just now.
        """

    def stop(self) -> None:  # noqa: B027 - optional to override
        """Free what `start` opened."""

    def validate(self, config: Mapping[str, str]) -> Mapping[str, Sequence[str]]:
        """Errors that need more than one key or a look at the source: key to messages. Empty where all is well.

        Called on an instance that was never started, also while some settings are wrong by `config_def`, so that a
        form can show all errors at once; what it raises then is disregarded.
        """
        return {}

    def list_choices(self, config: Mapping[str, str]) -> Mapping[str, Sequence[Choice]]:
        """What there is to choose from at the source, such as its tables: by setting, in the order to offer it.

        Called on the same instance after `validate`, where the connector's own settings are right by `config_def`.
        What it raises is disregarded.
        """
        return {}

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport | None:
        """Whether no record is lost or doubled with this configuration; None (the default) means unknown."""
        return None

    def can_define_transaction_boundaries(self, config: Mapping[str, str]) -> ConnectorTransactionBoundaries:
        """Whether the task uses its `TransactionContext`."""
        return ConnectorTransactionBoundaries.UNSUPPORTED

    def alter_offsets(
        self, config: Mapping[str, str], offsets: Sequence[tuple[SourcePartition, SourceOffset | None]]
    ) -> bool:
        """Offsets are about to be changed by hand (KIP-875); None deletes. Raise `ConnectorError` to refuse a bad one.

        Return true where the connector has checked them, false where it does not care.
        """
        return False

    def record_positions(self, config: Mapping[str, str]) -> PositionPaths | None:
        """Where this connector's records name their place in the source, so that gaps and doubles can be counted in
        Kafka; None (the default) where they do not.

        It describes the records as the connector makes them: a transform that changes them may hide their places.
        """
        return None

    def count_records(self, config: Mapping[str, str], partition: SourcePartition, offset: SourceOffset) -> int | None:
        """How many records the source partition holds up to a committed offset; None (the default) means unknown.

        Called on an instance that was never started. It may read the source, which can take long: 30 seconds at most.
        """
        return None
