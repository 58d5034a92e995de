"""PostgresSource: change data capture with the settings and records of Debezium's PostgreSQL connector."""

import threading
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from ringfence.connectors.api import (
    CatalogEntry,
    Category,
    Choice,
    ConnectorError,
    ConnectorTransactionBoundaries,
    ExactlyOnceSupport,
    Examination,
    Guarantee,
    SourceConnector,
    SourceOffset,
    SourcePartition,
    SourceTask,
)
from ringfence.connectors.builtin.postgres import settings as names
from ringfence.connectors.builtin.postgres.offsets import is_snapshot_partition, position_of, share_config
from ringfence.connectors.builtin.postgres.settings import CONFIG_DEF, TRIAL, find_unsupported
from ringfence.connectors.sdk.delivery import transaction_boundary, with_boundary

_WATCH_SECONDS: Final = 10.0
_EXTRA: Final = "PostgresSource needs psycopg, which is not installed: pip install 'ringfence[postgres]'."


class PostgresSourceConnector(SourceConnector):
    """Reads the rows of a PostgreSQL database, then inserts, updates and deletes as they are committed.

    All tasks share the initial snapshot. One task reads the changes by logical replication, because their order is
    total. By default, a transaction of the database is one Kafka transaction.
    """

    version: ClassVar[str] = "1.0.0"
    own_settings = CONFIG_DEF
    preview_while_running = True
    catalog: ClassVar[CatalogEntry | None] = CatalogEntry(
        title="PostgreSQL changes",
        summary="Change data capture: a snapshot, then each insert, update and delete, in Debezium's records.",
        category=Category.DATABASES,
        guarantee=Guarantee.EXACTLY_ONCE,
        goes_back=False,
        needs=(
            "PostgreSQL 14 or newer with wal_level=logical, and an account with REPLICATION and SELECT.",
            "pip install 'ringfence[postgres]' on the machines that run the tasks.",
        ),
        sample={
            "tasks.max": "2",
            "database.hostname": "db.example.com",
            "database.user": "ringfence",
            "database.dbname": "shop",
            "topic.prefix": "shop",
            "slot.name": "ringfence_shop",
        },
        icon="database-zap",
        keywords=("cdc", "logical replication", "wal"),
        selects=(names.TABLES,),
    )
    _reached = False

    @classmethod
    def task_class(cls) -> type[SourceTask]:
        try:
            from ringfence.connectors.builtin.postgres.task import PostgresSourceTask
        except ModuleNotFoundError as error:
            raise ConnectorError(_EXTRA) from error
        return PostgresSourceTask

    def start(self, config: Mapping[str, str]) -> None:
        super().start(config)
        self._stopping = threading.Event()
        self._watching: threading.Thread | None = None

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        if self.context.trial:
            return [{**self.config, TRIAL: "true"}]
        tasks = self._count_tasks(max_tasks)
        if tasks > 1 and self._watching is None:
            self._watching = threading.Thread(target=self._watch, name="snapshot watch", daemon=True)
            self._watching.start()
        return [{**self.config, **share_config(number, tasks)} for number in range(tasks)]

    def _count_tasks(self, max_tasks: int) -> int:
        """Return one task for streaming, or one for each range of a snapshot, up to `max_tasks`."""
        from ringfence.connectors.builtin.postgres.snapshot_run import find_state

        settings = CONFIG_DEF.parse(self.config)
        state = find_state(
            settings.string(names.PREFIX), settings.string(names.SNAPSHOT), self.context.offset_reader.offset
        )
        if not state.has_work:
            return 1
        return max_tasks if state.plan is None else min(max_tasks, len(state.ranges))

    def _watch(self) -> None:
        """Request reconfigurations until the snapshot is complete, and only the first task has work left."""
        while not self._stopping.wait(_WATCH_SECONDS):
            self.context.request_task_reconfiguration()

    def stop(self) -> None:
        self._stopping.set()

    def validate(self, config: Mapping[str, str]) -> Mapping[str, Sequence[str]]:
        try:
            from ringfence.connectors.builtin.postgres.checks import find_errors
        except ModuleNotFoundError:
            return {"connector.class": [_EXTRA]}
        config = with_boundary(self, config)
        errors_found = find_errors(config)
        self._reached = names.HOST not in errors_found
        return {**self.check_settings(config), **errors_found}

    def check_settings(self, config: Mapping[str, str]) -> Mapping[str, Sequence[str]]:
        errors = find_unsupported(config)
        if self.must_define_transaction_boundaries(config) and transaction_boundary(config, "connector") != "connector":
            errors.setdefault("transaction.boundary", []).append(
                "Remove it, or set transaction.boundary=connector, so that a transaction of the database is never "
                f"visible in parts. If that does not matter, set {names.TRANSACTIONS}={names.SPLIT}."
            )
        return errors

    def list_choices(self, config: Mapping[str, str]) -> Mapping[str, Sequence[Choice]]:
        if not self._reached:  # `validate` has already waited for the server: do not wait again
            return {}
        from ringfence.connectors.builtin.postgres.checks import describe_snapshot, list_choices
        from ringfence.connectors.builtin.postgres.session import Server, Session, selection_of

        settings = CONFIG_DEF.parse(config)
        session = Session(Server(settings, config.get("name", "")))
        try:
            return {**list_choices(session), names.SNAPSHOT: describe_snapshot(session, selection_of(settings))}
        finally:
            session.close()

    def examine(self, config: Mapping[str, str]) -> Examination:
        try:
            from ringfence.connectors.builtin.postgres.checks import examine
        except ModuleNotFoundError:
            return Examination({"connector.class": [_EXTRA]})
        return examine(with_boundary(self, config))

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport | None:
        return ExactlyOnceSupport.SUPPORTED

    def can_define_transaction_boundaries(self, config: Mapping[str, str]) -> ConnectorTransactionBoundaries:
        return ConnectorTransactionBoundaries.SUPPORTED

    def must_define_transaction_boundaries(self, config: Mapping[str, str]) -> bool:
        """Return whether a transaction of the database must not be visible in parts."""
        return (config.get(names.TRANSACTIONS, "").strip() or names.WHOLE) == names.WHOLE

    def alter_offsets(
        self, config: Mapping[str, str], offsets: Sequence[tuple[SourcePartition, SourceOffset | None]]
    ) -> bool:
        """Accept the deletion of any offset; a new one needs a position, and the topic prefix in its partition."""
        for partition, offset in offsets:
            if offset is None:
                continue
            if not isinstance(partition.get("server"), str):
                raise ConnectorError(f"The partition {dict(partition)} must name the topic prefix under 'server'.")
            if is_snapshot_partition(partition):
                raise ConnectorError(
                    f"The partition {dict(partition)} belongs to a snapshot. It can be reset, but not changed: to "
                    "read the tables again, reset all offsets of the connector."
                )
            position_of(offset)
        return True
