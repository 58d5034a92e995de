"""PostgresSource: the twin of Debezium's connector for PostgreSQL."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from ringfence.connectors.api import (
    Choice,
    ConfigDef,
    ConnectorError,
    ConnectorTransactionBoundaries,
    ExactlyOnceSupport,
    SourceConnector,
    SourceOffset,
    SourcePartition,
    SourceTask,
)
from ringfence.connectors.builtin.postgres import settings as names
from ringfence.connectors.builtin.postgres.offsets import position_of
from ringfence.connectors.builtin.postgres.settings import TRIAL
from ringfence.connectors.builtin.postgres.unsupported import find_unsupported

_EXTRA = "PostgresSource needs psycopg, which is not installed here: pip install 'ringfence[postgres]'."


class PostgresSourceConnector(SourceConnector):
    """Reads inserts, updates and deletes of a PostgreSQL database as they are committed, by logical replication.

    One task reads them all, since the changes of a database have one order. Transactions of the database stay whole
    with transaction.boundary=connector.
    """

    version: ClassVar[str] = "1.0.0"
    _reached = False

    @classmethod
    def config_def(cls) -> ConfigDef:
        return names.CONFIG_DEF

    @classmethod
    def task_class(cls) -> type[SourceTask]:
        try:
            from ringfence.connectors.builtin.postgres.task import PostgresSourceTask
        except ModuleNotFoundError as error:
            raise ConnectorError(_EXTRA) from error
        return PostgresSourceTask

    def start(self, config: Mapping[str, str]) -> None:
        self._config = dict(config)

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [{**self._config, **({TRIAL: "true"} if self.context.trial else {})}]

    def validate(self, config: Mapping[str, str]) -> Mapping[str, Sequence[str]]:
        try:
            from ringfence.connectors.builtin.postgres.checks import find_errors
        except ModuleNotFoundError:
            return {"connector.class": [_EXTRA]}
        found = find_errors(config)
        self._reached = names.HOST not in found
        errors = {**find_unsupported(config), **found}
        boundary = config.get("transaction.boundary", "poll").strip().lower()
        if config.get(names.TRANSACTIONS, names.WHOLE) == names.WHOLE and boundary != "connector":
            errors.setdefault("transaction.boundary", []).append(
                "Set transaction.boundary=connector, so that a transaction of the database is never visible in parts. "
                f"Where that does not matter, set {names.TRANSACTIONS}={names.SPLIT}."
            )
        return errors

    def list_choices(self, config: Mapping[str, str]) -> Mapping[str, Sequence[Choice]]:
        if not self._reached:  # `validate` has waited for the server, in vain
            return {}
        from ringfence.connectors.builtin.postgres.choices import list_choices
        from ringfence.connectors.builtin.postgres.session import Server, Session

        session = Session(Server(names.CONFIG_DEF.parse(config), config.get("name", "")))
        try:
            return list_choices(session)
        finally:
            session.close()

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport | None:
        return ExactlyOnceSupport.SUPPORTED

    def can_define_transaction_boundaries(self, config: Mapping[str, str]) -> ConnectorTransactionBoundaries:
        return ConnectorTransactionBoundaries.SUPPORTED

    def alter_offsets(
        self, config: Mapping[str, str], offsets: Sequence[tuple[SourcePartition, SourceOffset | None]]
    ) -> bool:
        """Any offset may be deleted; a new one needs a position, and a partition that names the server."""
        for partition, offset in offsets:
            if offset is None:
                continue
            if not isinstance(partition.get("server"), str):
                raise ConnectorError(f"The partition {dict(partition)} must name the topic prefix under 'server'.")
            position_of(offset)
        return True
