"""The settings of PostgresSource, those of Debezium that it refuses, and what they select. Names and defaults are
Debezium's if it has the setting.

Schemas, tables, columns and messages are selected by lists of regular expressions, and column names converted to field
names, as Debezium does: formats such as Avro do not accept all column names.

Debezium's settings that change the content or order of records, and that this connector does not support, are refused,
so that a Debezium configuration does not silently change its meaning. Debezium's default is accepted. Settings that
only tune Debezium's threads and queues are accepted and have no effect.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ringfence.connectors.api import ConfigDef, ConfigException, Importance, NonEmpty, ParsedConfig, Width
from ringfence.connectors.sdk.linear_patterns import LinearPattern
from ringfence.connectors.sdk.unsupported_values import Handling, define_unsupported_values

_SYSTEM: Final = frozenset({"pg_catalog", "information_schema", "pg_toast"})


def check_patterns(name: str, value: object) -> None:
    """Validate that each item of the list is a regular expression."""
    for item in value if isinstance(value, list) else ():
        try:
            LinearPattern(str(item))
        except ValueError as error:
            raise ConfigException.invalid(name, item, f"Not a regular expression: {error}") from error


class Patterns:
    """Regular expressions. A name is in them if it matches one completely, ignoring case."""

    def __init__(self, items: Iterable[object]) -> None:
        self._compiled = [LinearPattern(str(item), re.IGNORECASE) for item in items]

    def __bool__(self) -> bool:
        return bool(self._compiled)

    def __contains__(self, name: str) -> bool:
        return any(pattern.fullmatch(name) for pattern in self._compiled)


@dataclass(frozen=True)
class Rule:
    """An include list and an exclude list. An empty include list includes everything."""

    include: Patterns
    exclude: Patterns

    def __contains__(self, name: str) -> bool:
        return name not in self.exclude and (not self.include or name in self.include)


def rule(config: ParsedConfig, include: str, exclude: str) -> Rule:
    """Return the rule of two settings."""
    return Rule(Patterns(_items(config, include)), Patterns(_items(config, exclude)))


def _items(config: ParsedConfig, name: str) -> Sequence[object]:
    value = config[name]
    assert isinstance(value, list)
    return value


class Selection:
    """The schemas, tables, columns and messages to read."""

    def __init__(self, schemas: Rule, tables: Rule, columns: Rule, messages: Rule, keys: str | None) -> None:
        self._schemas = schemas
        self._tables = tables
        self._columns = columns
        self.messages = messages
        self._keys = [
            (LinearPattern(table, re.IGNORECASE), tuple(column.strip() for column in columns.split(",")))
            for part in (keys or "").split(";")
            if part.strip()
            for table, _, columns in [part.strip().rpartition(":")]
        ]

    def has_table(self, schema: str, table: str) -> bool:
        return (
            schema not in _SYSTEM
            and not schema.startswith("pg_temp_")
            and schema in self._schemas
            and f"{schema}.{table}" in self._tables
        )

    def has_column(self, schema: str, table: str, column: str) -> bool:
        return f"{schema}.{table}.{column}" in self._columns

    def key_columns(self, schema: str, table: str) -> Sequence[str] | None:
        """Return a table's columns in `message.key.columns`, or None if it does not contain the table."""
        return next((columns for name, columns in self._keys if name.fullmatch(f"{schema}.{table}")), None)


NONE: Final = "none"
AVRO: Final = "avro"
AVRO_UNICODE: Final = "avro_unicode"

_CONVERTERS: Final = ("key.converter", "value.converter")
_DIGIT: Final = re.compile("^(?=[0-9])")
_OTHER: Final = re.compile("[^A-Za-z0-9_]")
_OTHER_OR_UNDERSCORE: Final = re.compile("^[0-9]|[^A-Za-z0-9]")
Rename = Callable[[str], str]


def renaming(mode: str, config: Mapping[str, str]) -> Rename:
    """Return the function that converts a column's name to its field's name.

    mode: one of the constants above. With an AvroConverter, `none` means `avro`.
    """
    if mode == NONE and any(config.get(name, "").strip().endswith("AvroConverter") for name in _CONVERTERS):
        mode = AVRO
    if mode == AVRO:
        return _with_underscores
    return _with_codes if mode == AVRO_UNICODE else str


def _with_underscores(name: str) -> str:
    return _DIGIT.sub("_", _OTHER.sub(lambda match: "_" * len(_units(match[0])), name))


def _with_codes(name: str) -> str:
    return _OTHER_OR_UNDERSCORE.sub(lambda match: "".join(map(_code, _units(match[0]))), name)


def _units(char: str) -> memoryview:
    """Return the UTF-16 code units: Debezium replaces Java's chars."""
    return memoryview(char.encode("utf-16")[2:]).cast("H")


def _code(unit: int) -> str:
    """Return the code as Debezium writes it: with two leading zeros up to 0xff, with none from 0x100."""
    return f"_u00{unit:x}" if unit < 0x100 else f"_u{unit:x}"


TRIAL: Final = "postgres.trial"
"""In a task's configuration: the task is for a preview, and changes nothing."""
WHOLE: Final = "whole"
SPLIT: Final = "split"
ALL_TABLES: Final = "all_tables"
FILTERED: Final = "filtered"
NO_TABLES: Final = "no_tables"
DISABLED: Final = "disabled"
INITIAL: Final = "initial"
INITIAL_ONLY: Final = "initial_only"
NO_DATA: Final = "no_data"
WHEN_NEEDED: Final = "when_needed"


def check_slot_name(name: str, value: object) -> None:
    text = str(value)
    if not text or len(text) > 63 or not all(char in "abcdefghijklmnopqrstuvwxyz0123456789_" for char in text):
        raise ConfigException.invalid(name, value, "Use 1 to 63 lowercase letters, digits and underscores")


def check_topic_prefix(name: str, value: object) -> None:
    text = str(value)
    if not text or not all(char.isascii() and (char.isalnum() or char in "._-") for char in text):
        raise ConfigException.invalid(name, value, "Use letters, digits, '.', '_' and '-'")


def check_operations(name: str, value: object) -> None:
    operations = {str(one) for one in value} if isinstance(value, list) else set()
    if operations - {"c", "u", "d", "t", "m", "r", "none"}:
        raise ConfigException.invalid(name, value, "Use c, u, d, t, m and r, or none")


def check_key_columns(name: str, value: object) -> None:
    for part in str(value).split(";"):
        table, colon, columns = part.strip().rpartition(":")
        if part.strip() and not (table and colon and columns):
            raise ConfigException.invalid(name, value, "Use schema.table:column,column;…")


_CHOSEN: Final = ("schema.include.list", "schema.exclude.list", "table.include.list", "table.exclude.list")
"""Settings whose choices depend on the server."""

CONFIG_DEF: Final = ConfigDef()
_connection: Final = CONFIG_DEF.group("Connection")
_tables: Final = CONFIG_DEF.group("Tables")
_stream: Final = CONFIG_DEF.group("Replication")
_records: Final = CONFIG_DEF.group("Records")

HOST: Final = _connection.text(
    "database.hostname", "Name or address of the database server.", display_name="Host", dependents=_CHOSEN
)
PORT: Final = _connection.integer(
    "database.port",
    "Port of the database server.",
    5432,
    1,
    65535,
    importance=Importance.HIGH,
    display_name="Port",
    dependents=_CHOSEN,
)
USER: Final = _connection.text(
    "database.user",
    "User with the REPLICATION attribute, and SELECT on the tables.",
    display_name="User",
    dependents=_CHOSEN,
)
PASSWORD: Final = _connection.secret(
    "database.password", "The user's password.", importance=Importance.HIGH, display_name="Password", dependents=_CHOSEN
)
DATABASE: Final = _connection.text(
    "database.dbname", "The database whose changes are read.", display_name="Database", dependents=_CHOSEN
)
SSL_MODE: Final = _connection.choice(
    "database.sslmode",
    "Whether to encrypt the connection, and to verify the server's certificate.",
    ("disable", "allow", "prefer", "require", "verify-ca", "verify-full"),
    "prefer",
    importance=Importance.LOW,
)
SSL_ROOT: Final = _connection.text(
    "database.sslrootcert", "File with the CA certificates that verify the server's certificate.", None
)
PREFIX: Final = _tables.text(
    "topic.prefix",
    "Prefix of topic names: prefix.schema.table. Do not change it later.",
    validator=check_topic_prefix,
    display_name="Topic prefix",
)
SCHEMAS: Final = _tables.items(
    "schema.include.list",
    "Schemas to read, as regular expressions. Default: all but PostgreSQL's own.",
    validator=check_patterns,
)
SCHEMAS_EXCLUDE: Final = _tables.items(
    "schema.exclude.list", "Schemas to exclude, as regular expressions.", validator=check_patterns
)
TABLES: Final = _tables.items(
    "table.include.list",
    "Tables to read, as regular expressions for schema.table. Default: all.",
    validator=check_patterns,
    importance=Importance.HIGH,
    display_name="Tables",
)
TABLES_EXCLUDE: Final = _tables.items(
    "table.exclude.list", "Tables to exclude, as regular expressions for schema.table.", validator=check_patterns
)
COLUMNS: Final = _tables.items(
    "column.include.list",
    "Columns to read, as regular expressions for schema.table.column. Default: all.",
    validator=check_patterns,
)
COLUMNS_EXCLUDE: Final = _tables.items(
    "column.exclude.list",
    "Columns to exclude, as regular expressions for schema.table.column.",
    validator=check_patterns,
)
KEY_COLUMNS: Final = _tables.text(
    "message.key.columns",
    "Record keys in place of primary keys: schema.table:column,column;… The table is a regular expression.",
    None,
    validator=check_key_columns,
    importance=Importance.LOW,
)
SLOT: Final = _stream.text(
    "slot.name", "Name of the replication slot. It is created if it is missing.", "debezium", validator=check_slot_name
)
SLOT_FAILOVER: Final = _stream.flag(
    "slot.failover", "Synchronize the slot to standbys (PostgreSQL 17 or newer).", False, importance=Importance.LOW
)
RETAINED_WARN: Final = _stream.long(
    "slot.retained.warn.bytes",
    "If the server retains more bytes of write-ahead log for the slot, the connector's page and an "
    "alert report it; 0: never. At most 80 % of max_slot_wal_keep_size.",
    5 * 1024**3,
    0,
    importance=Importance.LOW,
)
PUBLICATION: Final = _stream.text(
    "publication.name", "Name of the publication.", "dbz_publication", validator=NonEmpty()
)
AUTOCREATE: Final = _stream.choice(
    "publication.autocreate.mode",
    "How a missing publication is created: for all tables, for the captured tables, for none, or not at all.",
    (ALL_TABLES, FILTERED, NO_TABLES, DISABLED),
    ALL_TABLES,
    importance=Importance.LOW,
)
VIA_ROOT: Final = _stream.flag(
    "publish.via.partition.root",
    "Publish changes of partitions as changes of their root table.",
    False,
    importance=Importance.LOW,
)
PLUGIN: Final = _stream.choice(
    "plugin.name", "The output plugin of the slot.", ("pgoutput",), "pgoutput", importance=Importance.LOW
)
SNAPSHOT: Final = _stream.choice(
    "snapshot.mode",
    "initial: if nothing is committed yet, read the existing rows, then changes; initial_only: the rows, but no "
    "changes; no_data: changes from now on; when_needed: as initial, and read the rows again if changes were lost, "
    "for example because the slot was dropped.",
    (INITIAL, INITIAL_ONLY, NO_DATA, WHEN_NEEDED),
    INITIAL,
    importance=Importance.LOW,
)
RANGE_ROWS: Final = _stream.integer(
    "snapshot.range.rows",
    "Approximate rows in a range of the snapshot. The ranges are distributed to up to tasks.max tasks.",
    100_000,
    1,
    importance=Importance.LOW,
)
SIGNALS: Final = _stream.text(
    "signal.data.collection",
    "Debezium's signal table, schema.table, with the columns id, type and data. It must be in the publication.",
    None,
    importance=Importance.LOW,
)
CHUNK_SIZE: Final = _stream.integer(
    "incremental.snapshot.chunk.size",
    "Rows in a chunk of an incremental snapshot.",
    1024,
    1,
    100_000,
    importance=Importance.LOW,
)
TRANSACTIONS: Final = _stream.choice(
    "source.transactions",
    "whole: a transaction of the database is never visible in parts (with transaction.boundary=connector); split: "
    "transaction.boundary alone determines where transactions end.",
    (WHOLE, SPLIT),
    WHOLE,
    importance=Importance.LOW,
)
TRANSACTION_ROWS: Final = _stream.integer(
    "source.transaction.max.rows",
    "A transaction of the database with more changes becomes visible in parts, with a warning.",
    500_000,
    1,
    importance=Importance.LOW,
)
HEARTBEAT: Final = _stream.integer(
    "heartbeat.interval.ms",
    "Milliseconds after which the position is committed if no captured table has changed; 0: a minute, without "
    "records in the heartbeat topic.",
    0,
    0,
    importance=Importance.LOW,
)
HEARTBEAT_PREFIX: Final = _stream.text(
    "heartbeat.topics.prefix", "Prefix of the heartbeat topic's name.", "__debezium-heartbeat"
)
HEARTBEAT_QUERY: Final = _stream.text("heartbeat.action.query", "SQL to run with each heartbeat.", None)
# About one produce request. If more records wait while a request is in flight, librdkafka's thread polls its
# connection without a pause (`rd_kafka_toppar_producer_serve` in 2.16), and slows down a broker on this machine.
BATCH_SIZE: Final = _stream.integer(
    "max.batch.size", "Maximum number of records in a batch.", 2048, 1, importance=Importance.LOW
)
FIELD_NAMES: Final = _records.choice(
    "field.name.adjustment.mode",
    "How to name fields of columns whose names Avro does not allow. none: as the columns, or as with avro if the "
    "connector has an AvroConverter of its own; avro: with underscores; avro_unicode: with the codes of "
    "characters, such as _u005f, also for underscores.",
    (NONE, AVRO, AVRO_UNICODE),
    NONE,
    importance=Importance.LOW,
)
DECIMALS: Final = _records.choice(
    "decimal.handling.mode",
    "How numeric and money are written.",
    ("precise", "double", "string"),
    "precise",
    importance=Importance.LOW,
)
TIMES: Final = _records.choice(
    "time.precision.mode",
    "How dates and times are written: with the column's precision, in microseconds, or as Kafka Connect's types.",
    ("adaptive", "adaptive_time_microseconds", "connect"),
    "adaptive",
    importance=Importance.LOW,
)
INTERVALS: Final = _records.choice(
    "interval.handling.mode",
    "How intervals are written: microseconds or ISO 8601.",
    ("numeric", "string"),
    "numeric",
    importance=Importance.LOW,
)
BINARY: Final = _records.choice(
    "binary.handling.mode",
    "How bytea is written.",
    ("bytes", "base64", "base64-url-safe", "hex"),
    "bytes",
    importance=Importance.LOW,
)
HSTORE: Final = _records.choice(
    "hstore.handling.mode", "How hstore is written.", ("json", "map"), "json", importance=Importance.LOW
)
MONEY_DIGITS: Final = _records.integer(
    "money.fraction.digits", "Decimal places of money.", 2, 0, 9, importance=Importance.LOW
)
define_unsupported_values(_records, default=Handling.NULL)
UNKNOWN_TYPES: Final = _records.flag(
    "include.unknown.datatypes",
    "Write columns of unsupported types as the bytes of their text.",
    False,
    importance=Importance.LOW,
)
PLACEHOLDER: Final = _records.text(
    "unavailable.value.placeholder",
    "Replaces a large value that an update did not change: the server does not send it.",
    "__debezium_unavailable_value",
)
TOMBSTONES: Final = _records.flag(
    "tombstones.on.delete",
    "Write a tombstone after each delete, so that compaction removes the key.",
    True,
    importance=Importance.LOW,
)
SKIPPED: Final = _records.items(
    "skipped.operations",
    "Operations without records: c, u, d, t(runcate), m(essage), r(ead in a snapshot); or none.",
    "t",
    width=Width.NONE,
    validator=check_operations,
    importance=Importance.LOW,
)
METADATA: Final = _records.flag(
    "provide.transaction.metadata",
    "Write the beginning and end of transactions to the topic prefix.transaction, and number their records.",
    False,
    importance=Importance.LOW,
)
CONTEXT_HEADERS: Final = _records.flag(
    "extended.headers.enabled",
    "Write headers with the connector's name and the task's id.",
    True,
    importance=Importance.LOW,
)
MESSAGES: Final = _records.items(
    "message.prefix.include.list",
    "Prefixes of logical decoding messages to read, as regular expressions. Default: all.",
    validator=check_patterns,
)
MESSAGES_EXCLUDE: Final = _records.items(
    "message.prefix.exclude.list",
    "Prefixes of logical decoding messages to exclude, as regular expressions.",
    validator=check_patterns,
)


_FAMILIES: Final = (
    "column.mask.",
    "column.truncate.",
    "column.propagate.",
    "datatype.propagate.",
    "notification.",
    "signal.",
    "snapshot.",
    "openlineage.",
)
TUNING: Final = frozenset(
    {
        "signal.poll.interval.ms",
        "snapshot.delay.ms",
        "snapshot.fetch.size",
        "snapshot.lock.timeout.ms",
        "snapshot.locking.mode",
        "snapshot.max.threads",
    }
)
"""Settings of these families that do not change what is delivered. They have no effect: no lock is taken."""
_NAMES: Final[Mapping[str, str]] = {
    "converters": "",
    "custom.metric.tags": "",
    "database.initial.statements": "",
    "database.sslcert": "",
    "database.sslfactory": "",
    "database.sslkey": "",
    "database.sslpassword": "",
    "flush.lsn.source": "true",
    "include.schema.comments": "false",
    "incremental.snapshot.allow.schema.changes": "false",
    "incremental.snapshot.watermarking.strategy": "insert_insert",
    "lsn.flush.mode": "connector",
    "post.processors": "",
    "read.only": "false",
    "replica.identity.autoset.values": "",
    "schema.name.adjustment.mode": "none",
    "skip.messages.without.change": "false",
    "signal.enabled.channels": "source",
    "slot.drop.on.stop": "false",
    "slot.stream.params": "",
    "sourceinfo.struct.maker": "io.debezium.connector.postgresql.PostgresSourceInfoStructMaker",
    "topic.delimiter": ".",
    "topic.naming.strategy": "io.debezium.schema.SchemaTopicNamingStrategy",
    "transaction.metadata.factory": "io.debezium.pipeline.txmetadata.DefaultTransactionMetadataFactory",
}
"""Unsupported settings, with Debezium's defaults."""


_MODES: Final[Mapping[str, str]] = {
    "always": "Tasks also restart when a worker fails, and each start would read all rows again. To read them again, "
    "request an incremental snapshot.",
    "never": "Use no_data, Debezium's new name of this mode.",
}
"""Unsupported values of `snapshot.mode`, with the alternative."""


def find_unsupported(config: Mapping[str, str]) -> dict[str, list[str]]:
    """Return errors by setting."""
    mode = config.get(SNAPSHOT, "").strip().lower()
    return {
        **({SNAPSHOT: [f"{SNAPSHOT}={mode} is not supported. {_MODES[mode]}"]} if mode in _MODES else {}),
        **{
            name: [f"PostgresSource does not support Debezium's setting {name} yet. Remove it."]
            for name, value in config.items()
            if name not in CONFIG_DEF.keys
            and name not in TUNING
            and (name.startswith(_FAMILIES) or name in _NAMES)
            and value.strip() not in ("", _NAMES.get(name))
        },
    }
