"""The connector: it validates the configuration and divides the work among tasks. It moves no data."""

from abc import ABC
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, Protocol

from ringfence.connectors.api.config_def import ConfigDef
from ringfence.connectors.api.errors import ConnectorError
from ringfence.connectors.api.records import OffsetReader, SourceOffset, SourcePartition
from ringfence.connectors.api.task import SourceTask


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


class Category(StrEnum):
    """Where the records come from."""

    DATABASES = "Databases"
    FILES = "Files"
    KAFKA = "Kafka"
    APPLICATIONS = "Applications"
    TESTS = "Tests"
    OTHER = "Other"


class Guarantee(StrEnum):
    """What the connector promises at best. A configuration may promise less: `exactly_once_support` says so."""

    EXACTLY_ONCE = "Exactly once"
    EXACTLY_ONCE_WITHIN_WINDOW = "Exactly once within a window"
    AT_LEAST_ONCE = "At least once"
    UNKNOWN = "No guarantee declared"


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """title and summary: one line each, for people who search for a source by name.

    icon: the name of an icon of lucide.dev, "" for that of the category. keywords: what else a search finds it by.
    goes_back: whether it can read its data again after its source offsets are reset. needs: what must exist before it
    runs, one sentence each. sample: a configuration to start from, without `name` and `connector.class`. selects: the
    settings that choose what is read, which a form asks for after the source has answered.
    """

    title: str
    summary: str
    category: Category = Category.OTHER
    guarantee: Guarantee = Guarantee.UNKNOWN
    goes_back: bool = True
    needs: Sequence[str] = ()
    sample: Mapping[str, str] = field(default_factory=dict)
    icon: str = ""
    keywords: Sequence[str] = ()
    selects: Sequence[str] = ()

    def as_json(self) -> dict[str, object]:
        """Return the entry as JSON, for the plugin process's answer."""
        return {
            "title": self.title,
            "summary": self.summary,
            "category": self.category.value,
            "guarantee": self.guarantee.value,
            "goes_back": self.goes_back,
            "needs": list(self.needs),
            "sample": dict(self.sample),
            "icon": self.icon,
            "keywords": list(self.keywords),
            "selects": list(self.selects),
        }


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
    """A value that a form offers for a setting, with a short help text."""

    value: str
    description: str = ""


@dataclass(frozen=True, slots=True)
class Examination:
    """The answer of a source to a test of the connection.

    errors: why it cannot be read, as messages by setting; empty if it can. summary: what answered, in a sentence.
    proposals: values for settings that are not set, from what the source has.
    """

    errors: Mapping[str, Sequence[str]] = field(default_factory=dict)
    summary: str = ""
    proposals: Mapping[str, str] = field(default_factory=dict)


class SourceConnectorContext(Protocol):
    """What the framework offers a connector instance."""

    @property
    def offset_reader(self) -> OffsetReader:
        """The committed source offsets of this connector's tasks."""
        ...

    @property
    def trial(self) -> bool:
        """True in a preview. Then you must not change anything, neither at the source nor at the target."""
        ...

    def why_closed(self, topic: str) -> str:
        """Why the connector may not write to the topic, as a message; "" if it may.

        Ask before you create or change a topic: a record for a topic outside the grant fails the task.
        """
        ...

    def warn(self, text: str) -> None:
        """Show a warning in the worker's log and on the connector's page."""
        ...

    def request_task_reconfiguration(self) -> None:
        """Report that the source has changed (a new table, a removed file), so `task_configs` is called again soon.

        Call it from any thread."""
        ...

    def raise_error(self, error: Exception) -> None:
        """Report that the connector can no longer watch its source. It is FAILED with this error until it is restarted
        or reconfigured; its tasks keep running. Call it from any thread, after `start`.
        """
        ...


class SourceConnector(ABC):
    """Describes a source and divides it into tasks. Runs in the plugin process, never where records are processed.

    A connector with one task declares `own_settings` and `task_type`, and needs no method.
    """

    version: ClassVar[str] = "0"
    aliases: ClassVar[tuple[str, ...]] = ()
    """Other names for `connector.class`, such as the Java class that this connector replaces."""
    catalog: ClassVar[CatalogEntry | None] = None
    """How the catalog shows this connector; if None, by its class name and documentation."""
    preview_while_running: ClassVar[bool] = False
    """Whether a preview may read while this connector's tasks run: several tasks can read the same data at once, and
    `start` and `poll` of a preview change nothing at the source."""
    reads_offsets: ClassVar[bool] = True
    """Whether the connector itself reads `self.context.offset_reader`; its tasks may in any case. If False, nobody
    waits for these offsets when the connector is created or changed, and the reader raises `ConnectorError`."""
    own_settings: ClassVar[ConfigDef] = ConfigDef()
    """The connector's own settings. The framework adds the common ones (`name`, `tasks.max`, converters, ...)."""
    task_type: ClassVar[type[SourceTask] | None] = None
    """The task class. Every executor must be able to import it by its module path."""
    context: SourceConnectorContext
    """Set by the framework before `start`."""
    config: Mapping[str, str]
    """The configuration, from `start` on."""

    @classmethod
    def config_def(cls) -> ConfigDef:
        """Return the connector's own settings, by default `own_settings`."""
        return cls.own_settings

    @classmethod
    def task_class(cls) -> type[SourceTask]:
        """Return the task class, by default `task_type`. Override it to import the task's module only here."""
        if cls.task_type is None:
            raise ConnectorError(f"{cls.__name__} has no task class: set `task_type`, or override `task_class`.")
        return cls.task_type

    def start(self, config: Mapping[str, str]) -> None:
        """Receive the configuration, by default as `config`. The connector may start a thread here that watches the
        source for changes.
        """
        self.config = dict(config)

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """Return at most `max_tasks` task configurations, string to string, in a stable order; by default one.

        The framework adds `task.class`. An empty list means that there is nothing to read at present.
        """
        return [dict(self.config)]

    def stop(self) -> None:  # noqa: B027 - optional to override
        """Release what `start` opened."""

    def validate(self, config: Mapping[str, str]) -> Mapping[str, Sequence[str]]:
        """Return the errors that involve several settings or the source, as messages by setting. Empty if there are
        none.

        Called on an instance that was never started, even if `config_def` rejects some settings, so that a form can
        show all errors at once. What it raises in that case is ignored.
        """
        return {}

    def check_settings(self, config: Mapping[str, str]) -> Mapping[str, Sequence[str]]:
        """Return those errors of `validate` that need neither the source nor the worker, as messages by setting.

        `ringfence check` shows them where neither is at hand. Called as `validate` is.
        """
        return {}

    def list_choices(self, config: Mapping[str, str]) -> Mapping[str, Sequence[Choice]]:
        """Return what the source offers, such as its tables: choices by setting, in the order to show them.

        Called on the same instance after `validate`, if `config_def` accepts the connector's own settings, but for
        those that `CatalogEntry.selects` names: they are chosen from the answer. What it raises is ignored.
        """
        return {}

    def examine(self, config: Mapping[str, str]) -> Examination | None:
        """Reach the source with the settings that are needed for it; others may be missing or invalid. None (the
        default): not offered, so that a form shows the errors of `validate` instead.

        Called on an instance that was never started, when a user tests the connection. It changes nothing at the
        source, and may take at most 20 seconds. `sdk.diagnosis` says in words why a connection fails.
        """
        return None

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport | None:
        """Return whether the connector is exactly once with this configuration; None (the default) means unknown."""
        return None

    def explain_guarantee(self, config: Mapping[str, str]) -> str:
        """Return what the delivery guarantee depends on with this configuration, and what would improve it, in a
        sentence or two; "" (the default) if there is nothing to say.

        Forms and pages show it beside the guarantee. Called on the same instance after `exactly_once_support`.
        """
        return ""

    def can_define_transaction_boundaries(self, config: Mapping[str, str]) -> ConnectorTransactionBoundaries:
        """Return whether the task uses its `TransactionContext`."""
        return ConnectorTransactionBoundaries.UNSUPPORTED

    def must_define_transaction_boundaries(self, config: Mapping[str, str]) -> bool:
        """Return whether the task keeps its promises only with `transaction.boundary=connector`.

        Then that is the default of the setting in place of `poll`. `can_define_transaction_boundaries` must support
        it. Called with any configuration, also an incomplete or invalid one.
        """
        return False

    def alter_offsets(
        self, config: Mapping[str, str], offsets: Sequence[tuple[SourcePartition, SourceOffset | None]]
    ) -> bool:
        """Check offsets that a user wants to alter (KIP-875); None deletes one. Raise `ConnectorError` to refuse them.

        Return True if the connector has checked them, False if it accepts any.
        """
        return False

    def record_positions(self, config: Mapping[str, str]) -> PositionPaths | None:
        """Return where this connector's records name their position in the source, so that gaps and duplicates can be
        counted in Kafka; None (the default) if they do not name it.

        It describes the records as the connector creates them: a transform may hide their positions.
        """
        return None

    def count_records(self, config: Mapping[str, str], partition: SourcePartition, offset: SourceOffset) -> int | None:
        """Return how many records the source partition holds up to a committed offset; None (the default) means
        unknown.

        Called on an instance that was never started. It may read the source, for at most 30 seconds.
        """
        return None
