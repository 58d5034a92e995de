"""A task's configuration, and the objects that it determines: session, selection, record settings."""

from collections.abc import Mapping
from functools import cached_property

from ringfence.connectors.api import ParsedConfig
from ringfence.connectors.builtin.postgres import setting_names as names
from ringfence.connectors.builtin.postgres.capture import describer, record_settings, selection_of
from ringfence.connectors.builtin.postgres.field_names import renaming
from ringfence.connectors.builtin.postgres.known_tables import Describe
from ringfence.connectors.builtin.postgres.records import RecordMaker, RecordSettings
from ringfence.connectors.builtin.postgres.session import Server, Session
from ringfence.connectors.builtin.postgres.settings import CONFIG_DEF

_DEFAULT_TIMEOUT_MS = 60_000


class Setup:
    """A task's parsed configuration. session: for catalog queries; the task closes it."""

    def __init__(self, config: Mapping[str, str]) -> None:
        settings: ParsedConfig = CONFIG_DEF.parse(config)
        self.settings = settings
        self.server = Server(settings, config.get("name", ""))
        self.session = Session(self.server)
        self.slot = settings.string(names.SLOT)
        self.publication = settings.string(names.PUBLICATION)
        self.prefix = settings.string(names.PREFIX)
        self.partition: dict[str, object] = {"server": self.prefix}
        self.selection = selection_of(settings)
        self._rename = renaming(settings.string(names.FIELD_NAMES), config)
        self.batch_size = settings.integer(names.BATCH_SIZE)
        timeout_ms = int(config.get("producer.override.transaction.timeout.ms", _DEFAULT_TIMEOUT_MS))
        self.longest_seconds = timeout_ms / 2000
        """The longest time for which a Kafka transaction should be open: half of its timeout."""

    @property
    def silent_operations(self) -> frozenset[str]:
        """Operations without records (`skipped.operations`)."""
        operations = self.settings[names.SKIPPED]
        assert isinstance(operations, list)
        return frozenset(map(str, operations))

    @cached_property
    def records(self) -> RecordSettings:
        return record_settings(self.settings, self.server.database, self.partition, self.silent_operations)

    def new_maker(self) -> RecordMaker:
        return RecordMaker(self.records)

    def new_describer(self) -> Describe:
        return describer(self.session, self.settings, self.selection, self._rename)

    def query_server_version(self) -> int:
        return self.session.connection.info.server_version
