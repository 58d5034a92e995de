"""Settings of connectors that people bring from elsewhere: older names, and those that have no effect here."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ringfence.connectors.builtin.postgres.settings import TUNING

_DEBEZIUM_NAMES: Final = {
    "collection.blacklist": "collection.exclude.list",
    "collection.whitelist": "collection.include.list",
    "column.blacklist": "column.exclude.list",
    "column.whitelist": "column.include.list",
    "database.blacklist": "database.exclude.list",
    "database.history": "schema.history.internal",
    "database.server.name": "topic.prefix",
    "database.whitelist": "database.include.list",
    "mongodb.hosts": "mongodb.connection.string",
    "mongodb.name": "topic.prefix",
    "sanitize.field.names": "field.name.adjustment.mode",
    "schema.blacklist": "schema.exclude.list",
    "schema.whitelist": "schema.include.list",
    "slot.drop_on_stop": "slot.drop.on.stop",
    "table.blacklist": "table.exclude.list",
    "table.whitelist": "table.include.list",
    "toasted.value.placeholder": "unavailable.value.placeholder",
    "truncate.handling.mode": "skipped.operations",
}
"""Debezium's names up to 1.9 and their present ones. Debezium 2 and later ignore or refuse the former."""

_DEBEZIUM_PREFIXES: Final = {"database.history.": "schema.history.internal."}

_DEBEZIUM_SUFFIXES: Final = {
    ".delete.handling.mode": ".delete.tombstone.handling.mode",
    ".drop.tombstones": ".delete.tombstone.handling.mode",
}
"""Older names of settings of ExtractNewRecordState, after the transform's own."""

_DEBEZIUM_VALUES: Final = {
    ("plugin.name", "wal2json"): "pgoutput",
    ("plugin.name", "wal2json_rds"): "pgoutput",
    ("plugin.name", "wal2json_streaming"): "pgoutput",
    ("snapshot.mode", "exported"): "initial",
    ("snapshot.mode", "never"): "no_data",
    ("snapshot.mode", "schema_only"): "no_data",
}
"""Values that Debezium 3 has no more, and what they are called now."""

_NO_TUNING: Final = "Ringfence reads in another way, and does not need it. Remove it."
_NO_EFFECT: Final = "it has no effect here. Remove it."

_POSTGRES_IGNORED: Final = dict.fromkeys(
    ("connection.validation.timeout.ms", "database.server.id", "errors.max.retries",
     "event.processing.failure.handling.mode", "executor.shutdown.timeout.ms", "include.schema.changes",
     "max.queue.size", "max.queue.size.in.bytes", "min.row.count.to.stream.results", "poll.interval.ms",
     "query.fetch.size", "retriable.restart.connector.wait.ms", "schema.refresh.mode", "slot.max.retries",
     "slot.retry.delay.ms", "status.update.interval.ms", "streaming.delay.ms", "topic.cache.size",
     "xmin.fetch.interval.ms", *TUNING),
    _NO_TUNING,
)  # fmt: skip
"""Debezium's settings that PostgresSource accepts, and that have no effect."""

_JDBC_IGNORED: Final = {
    **dict.fromkeys(
        ("catalog.pattern", "connection.attempts", "connection.backoff.ms", "quote.sql.identifiers",
         "transaction.isolation.mode"),
        _NO_EFFECT,
    ),
    "dialect.name": "the dialect follows from connection.url. Remove it.",
    "table.types": "tables and views are read. Remove it, or name the tables in table.whitelist.",
}  # fmt: skip

_JDBC_NAMES: Final = {"numeric.precision.mapping": "numeric.mapping=precision_only"}

_MIRROR_IGNORED: Final = {
    **dict.fromkeys(
        ("groups", "groups.exclude", "emit.checkpoints.enabled", "emit.checkpoints.interval.seconds",
         "sync.group.offsets.enabled", "sync.group.offsets.interval.seconds"),
        "KafkaSource copies records, not the offsets of groups. For those, run MirrorCheckpointConnector.",
    ),
    **dict.fromkeys(("emit.heartbeats.enabled", "emit.heartbeats.interval.seconds"),
                    "KafkaSource sends no heartbeats. Remove it."),
    **dict.fromkeys(
        ("sync.topic.acls.enabled", "sync.topic.acls.interval.seconds"),
        "KafkaSource copies no ACLs. Remove it.",
    ),
    **dict.fromkeys(
        ("refresh.topics.enabled", "sync.topic.configs.enabled", "sync.topic.configs.interval.seconds",
         "emit.offset-syncs.enabled"),
        _NO_EFFECT,
    ),
}  # fmt: skip

_MIRROR_IGNORED_PREFIXES: Final = {"offset-syncs.": "KafkaSource needs no topic of offset syncs. Remove it."}

_CLIENTS: Final = ("source.cluster.", "source.consumer.", "target.cluster.")


@dataclass(frozen=True, slots=True)
class ForeignNames:
    """What else than its own settings a connector's configuration may hold.

    renamed: present names by older ones, of settings, and of their beginnings and ends; values: present values by
    setting and older value; ignored: why a setting has no effect, and what to do; families: prefixes of settings that
    the connector passes on.
    """

    renamed: Mapping[str, str] = field(default_factory=dict)
    renamed_prefixes: Mapping[str, str] = field(default_factory=dict)
    renamed_suffixes: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[tuple[str, str], str] = field(default_factory=dict)
    ignored: Mapping[str, str] = field(default_factory=dict)
    ignored_prefixes: Mapping[str, str] = field(default_factory=dict)
    families: tuple[str, ...] = ()

    def find_present_name(self, name: str) -> str:
        """Return the present name of an older one; "" if the name is not an older one."""
        prefixes, suffixes = self.renamed_prefixes.items(), self.renamed_suffixes.items()
        by_prefix = (now + name.removeprefix(old) for old, now in prefixes if name.startswith(old))
        by_suffix = (name.removesuffix(old) + now for old, now in suffixes if name.endswith(old))
        return self.renamed.get(name) or next(by_prefix, "") or next(by_suffix, "")

    def explain_ignored(self, name: str) -> str:
        """Return why a setting has no effect, and what to do; "" if nothing is known about it."""
        by_prefix = (text for prefix, text in self.ignored_prefixes.items() if name.startswith(prefix))
        return self.ignored.get(name) or next(by_prefix, "")


_DEBEZIUM: Final = ForeignNames(_DEBEZIUM_NAMES, _DEBEZIUM_PREFIXES, _DEBEZIUM_SUFFIXES, _DEBEZIUM_VALUES)
_BY_CLASS: Final = {
    "PostgresSourceConnector": ForeignNames(
        _DEBEZIUM_NAMES,
        _DEBEZIUM_PREFIXES,
        _DEBEZIUM_SUFFIXES,
        _DEBEZIUM_VALUES,
        _POSTGRES_IGNORED,
        {"driver.": _NO_TUNING},
    ),
    "SqlSourceConnector": ForeignNames(_JDBC_NAMES, ignored=_JDBC_IGNORED),
    "KafkaSourceConnector": ForeignNames(
        ignored=_MIRROR_IGNORED, ignored_prefixes=_MIRROR_IGNORED_PREFIXES, families=_CLIENTS
    ),
}


def foreign_names(class_name: str) -> ForeignNames:
    """Return those of a connector by its full class name."""
    if class_name.startswith("io.debezium."):
        return _DEBEZIUM
    return _BY_CLASS.get(class_name.rpartition(".")[2], ForeignNames())
