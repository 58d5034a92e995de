"""The settings of PostgresSource, and those of Debezium that it refuses. Names and defaults are Debezium's if it has
the setting.

Debezium's settings that change the content or order of records, and that this connector does not support, are refused,
so that a Debezium configuration does not silently change its meaning. Debezium's default is accepted. Settings that
only tune Debezium's threads and queues are accepted and have no effect.
"""

from collections.abc import Mapping
from typing import Final

from ringfence.connectors.api import ConfigDef, ConfigException, ConfigType, Importance, NonEmpty, OneOf, Range, Width
from ringfence.connectors.builtin.postgres import selection
from ringfence.connectors.builtin.postgres.selection import check_patterns
from ringfence.connectors.unsupported_values import Handling, define_unsupported_values

HOST: Final = "database.hostname"
PORT: Final = "database.port"
USER: Final = "database.user"
PASSWORD: Final = "database.password"  # noqa: S105 - the name of a setting
DATABASE: Final = "database.dbname"
SSL_MODE: Final = "database.sslmode"
SSL_ROOT: Final = "database.sslrootcert"
PREFIX: Final = "topic.prefix"
SLOT: Final = "slot.name"
SLOT_FAILOVER: Final = "slot.failover"
RETAINED_WARN: Final = "slot.retained.warn.bytes"
PUBLICATION: Final = "publication.name"
AUTOCREATE: Final = "publication.autocreate.mode"
VIA_ROOT: Final = "publish.via.partition.root"
PLUGIN: Final = "plugin.name"
SCHEMAS: Final = "schema.include.list"
SCHEMAS_EXCLUDE: Final = "schema.exclude.list"
TABLES: Final = "table.include.list"
TABLES_EXCLUDE: Final = "table.exclude.list"
COLUMNS: Final = "column.include.list"
COLUMNS_EXCLUDE: Final = "column.exclude.list"
KEY_COLUMNS: Final = "message.key.columns"
SNAPSHOT: Final = "snapshot.mode"
SIGNALS: Final = "signal.data.collection"
CHUNK_SIZE: Final = "incremental.snapshot.chunk.size"
RANGE_ROWS: Final = "snapshot.range.rows"
FIELD_NAMES: Final = "field.name.adjustment.mode"
DECIMALS: Final = "decimal.handling.mode"
TIMES: Final = "time.precision.mode"
INTERVALS: Final = "interval.handling.mode"
BINARY: Final = "binary.handling.mode"
HSTORE: Final = "hstore.handling.mode"
MONEY_DIGITS: Final = "money.fraction.digits"
UNKNOWN_TYPES: Final = "include.unknown.datatypes"
PLACEHOLDER: Final = "unavailable.value.placeholder"
TOMBSTONES: Final = "tombstones.on.delete"
SKIPPED: Final = "skipped.operations"
METADATA: Final = "provide.transaction.metadata"
CONTEXT_HEADERS: Final = "extended.headers.enabled"
HEARTBEAT: Final = "heartbeat.interval.ms"
HEARTBEAT_PREFIX: Final = "heartbeat.topics.prefix"
HEARTBEAT_QUERY: Final = "heartbeat.action.query"
MESSAGES: Final = "message.prefix.include.list"
MESSAGES_EXCLUDE: Final = "message.prefix.exclude.list"
BATCH_SIZE: Final = "max.batch.size"
TRANSACTIONS: Final = "source.transactions"
TRANSACTION_ROWS: Final = "source.transaction.max.rows"

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


_CONNECTION: Final = "Connection"
_TABLES: Final = "Tables"
_RECORDS: Final = "Records"
_STREAM: Final = "Replication"


_CHOSEN: Final = (SCHEMAS, SCHEMAS_EXCLUDE, TABLES, TABLES_EXCLUDE)
"""Settings whose choices depend on the server."""


def _definition() -> ConfigDef:
    definition = ConfigDef()

    def text(name: str, group: str, documentation: str, default: object = None, **more: object) -> None:
        definition.define(name, ConfigType.STRING, default, group=group, documentation=documentation, **more)  # type: ignore[arg-type]

    def choice(name: str, group: str, documentation: str, *choices: str, default: str) -> None:
        text(name, group, documentation, default, validator=OneOf(*choices), importance=Importance.LOW)

    def flag(name: str, group: str, documentation: str, default: bool) -> None:
        definition.define(
            name, ConfigType.BOOLEAN, default, group=group, documentation=documentation, importance=Importance.LOW
        )

    def number(name: str, group: str, documentation: str, default: int, low: int, high: int | None = None) -> None:
        definition.define(
            name,
            ConfigType.INT,
            default,
            group=group,
            documentation=documentation,
            validator=Range(low, high),
            importance=Importance.LOW,
        )

    def patterns(name: str, group: str, documentation: str) -> None:
        definition.define(
            name,
            ConfigType.LIST,
            [],
            group=group,
            documentation=documentation,
            validator=check_patterns,
            width=Width.LONG,
        )

    definition.define(
        HOST,
        ConfigType.STRING,
        validator=NonEmpty(),
        importance=Importance.HIGH,
        group=_CONNECTION,
        documentation="Name or address of the database server.",
        display_name="Host",
        dependents=_CHOSEN,
    )
    number(PORT, _CONNECTION, "Port of the database server.", 5432, 1, 65535)
    definition.define(
        USER,
        ConfigType.STRING,
        validator=NonEmpty(),
        importance=Importance.HIGH,
        group=_CONNECTION,
        documentation="User with the REPLICATION attribute, and SELECT on the tables.",
        display_name="User",
        dependents=_CHOSEN,
    )
    definition.define(
        PASSWORD,
        ConfigType.PASSWORD,
        None,
        importance=Importance.HIGH,
        group=_CONNECTION,
        documentation="The user's password.",
        display_name="Password",
        dependents=_CHOSEN,
    )
    definition.define(
        DATABASE,
        ConfigType.STRING,
        validator=NonEmpty(),
        importance=Importance.HIGH,
        group=_CONNECTION,
        documentation="The database whose changes are read.",
        display_name="Database",
        dependents=_CHOSEN,
    )
    choice(
        SSL_MODE,
        _CONNECTION,
        "Whether to encrypt the connection, and to verify the server's certificate.",
        *("disable", "allow", "prefer", "require", "verify-ca", "verify-full"),
        default="prefer",
    )
    text(SSL_ROOT, _CONNECTION, "File with the CA certificates that verify the server's certificate.")
    definition.define(
        PREFIX,
        ConfigType.STRING,
        validator=check_topic_prefix,
        importance=Importance.HIGH,
        group=_TABLES,
        documentation="Prefix of topic names: prefix.schema.table. Do not change it later.",
        display_name="Topic prefix",
    )
    patterns(SCHEMAS, _TABLES, "Schemas to read, as regular expressions. Default: all but PostgreSQL's own.")
    patterns(SCHEMAS_EXCLUDE, _TABLES, "Schemas to exclude, as regular expressions.")
    patterns(TABLES, _TABLES, "Tables to read, as regular expressions for schema.table. Default: all.")
    patterns(TABLES_EXCLUDE, _TABLES, "Tables to exclude, as regular expressions for schema.table.")
    patterns(COLUMNS, _TABLES, "Columns to read, as regular expressions for schema.table.column. Default: all.")
    patterns(COLUMNS_EXCLUDE, _TABLES, "Columns to exclude, as regular expressions for schema.table.column.")
    text(
        KEY_COLUMNS,
        _TABLES,
        "Record keys in place of primary keys: schema.table:column,column;… The table is a regular expression.",
        validator=check_key_columns,
        importance=Importance.LOW,
    )
    text(
        SLOT,
        _STREAM,
        "Name of the replication slot. It is created if it is missing.",
        "debezium",
        validator=check_slot_name,
    )
    flag(
        SLOT_FAILOVER,
        _STREAM,
        "Synchronize the slot to standbys (PostgreSQL 17 or newer).",
        False,
    )
    definition.define(
        RETAINED_WARN,
        ConfigType.LONG,
        5 * 1024**3,
        group=_STREAM,
        validator=Range(0),
        importance=Importance.LOW,
        documentation="If the server retains more bytes of write-ahead log for the slot, the connector's page and an "
        "alert report it; 0: never. At most 80 % of max_slot_wal_keep_size.",
    )
    text(PUBLICATION, _STREAM, "Name of the publication.", "dbz_publication", validator=NonEmpty())
    choice(
        AUTOCREATE,
        _STREAM,
        "How a missing publication is created: for all tables, for the captured tables, for none, or not at all.",
        *(ALL_TABLES, FILTERED, NO_TABLES, DISABLED),
        default=ALL_TABLES,
    )
    flag(VIA_ROOT, _STREAM, "Publish changes of partitions as changes of their root table.", False)
    choice(PLUGIN, _STREAM, "The output plugin of the slot.", "pgoutput", default="pgoutput")
    choice(
        SNAPSHOT,
        _STREAM,
        "initial: if nothing is committed yet, read the existing rows, then changes; initial_only: the rows, but no "
        "changes; no_data: changes from now on; when_needed: as initial, and read the rows again if changes were lost, "
        "for example because the slot was dropped.",
        *(INITIAL, INITIAL_ONLY, NO_DATA, WHEN_NEEDED),
        default=INITIAL,
    )
    number(
        RANGE_ROWS,
        _STREAM,
        "Approximate rows in a range of the snapshot. The ranges are distributed to up to tasks.max tasks.",
        100_000,
        1,
    )
    text(
        SIGNALS,
        _STREAM,
        "Debezium's signal table, schema.table, with the columns id, type and data. It must be in the publication.",
        importance=Importance.LOW,
    )
    number(CHUNK_SIZE, _STREAM, "Rows in a chunk of an incremental snapshot.", 1024, 1, 100_000)
    choice(
        TRANSACTIONS,
        _STREAM,
        "whole: a transaction of the database is never visible in parts (with transaction.boundary=connector); split: "
        "transaction.boundary alone determines where transactions end.",
        *(WHOLE, SPLIT),
        default=WHOLE,
    )
    number(
        TRANSACTION_ROWS,
        _STREAM,
        "A transaction of the database with more changes becomes visible in parts, with a warning.",
        500_000,
        1,
    )
    number(
        HEARTBEAT,
        _STREAM,
        "Milliseconds after which the position is committed if no captured table has changed; 0: a minute, without "
        "records in the heartbeat topic.",
        0,
        0,
    )
    text(HEARTBEAT_PREFIX, _STREAM, "Prefix of the heartbeat topic's name.", "__debezium-heartbeat")
    text(HEARTBEAT_QUERY, _STREAM, "SQL to run with each heartbeat.")
    # About one produce request. If more records wait while a request is in flight, librdkafka's thread polls its
    # connection without a pause (`rd_kafka_toppar_producer_serve` in 2.16), and slows down a broker on this machine.
    number(BATCH_SIZE, _STREAM, "Maximum number of records in a batch.", 2048, 1)
    choice(
        FIELD_NAMES,
        _RECORDS,
        "How to name fields of columns whose names Avro does not allow. none: as the columns, or as with avro if the "
        "connector has an AvroConverter of its own; avro: with underscores; avro_unicode: with the codes of "
        "characters, such as _u005f, also for underscores.",
        *(selection.NONE, selection.AVRO, selection.AVRO_UNICODE),
        default=selection.NONE,
    )
    choice(DECIMALS, _RECORDS, "How numeric and money are written.", "precise", "double", "string", default="precise")
    choice(
        TIMES,
        _RECORDS,
        "How dates and times are written: with the column's precision, in microseconds, or as Kafka Connect's types.",
        *("adaptive", "adaptive_time_microseconds", "connect"),
        default="adaptive",
    )
    choice(
        INTERVALS,
        _RECORDS,
        "How intervals are written: microseconds or ISO 8601.",
        "numeric",
        "string",
        default="numeric",
    )
    choice(
        BINARY,
        _RECORDS,
        "How bytea is written.",
        *("bytes", "base64", "base64-url-safe", "hex"),
        default="bytes",
    )
    choice(HSTORE, _RECORDS, "How hstore is written.", "json", "map", default="json")
    number(MONEY_DIGITS, _RECORDS, "Decimal places of money.", 2, 0, 9)
    define_unsupported_values(definition, _RECORDS, default=Handling.NULL)
    flag(UNKNOWN_TYPES, _RECORDS, "Write columns of unsupported types as the bytes of their text.", False)
    text(
        PLACEHOLDER,
        _RECORDS,
        "Replaces a large value that an update did not change: the server does not send it.",
        "__debezium_unavailable_value",
    )
    flag(TOMBSTONES, _RECORDS, "Write a tombstone after each delete, so that compaction removes the key.", True)
    definition.define(
        SKIPPED,
        ConfigType.LIST,
        "t",
        group=_RECORDS,
        validator=check_operations,
        importance=Importance.LOW,
        documentation="Operations without records: c, u, d, t(runcate), m(essage), r(ead in a snapshot); or none.",
    )
    flag(
        METADATA,
        _RECORDS,
        "Write the beginning and end of transactions to the topic prefix.transaction, and number their records.",
        False,
    )
    flag(CONTEXT_HEADERS, _RECORDS, "Write headers with the connector's name and the task's id.", True)
    patterns(MESSAGES, _RECORDS, "Prefixes of logical decoding messages to read, as regular expressions. Default: all.")
    patterns(MESSAGES_EXCLUDE, _RECORDS, "Prefixes of logical decoding messages to exclude, as regular expressions.")
    return definition


CONFIG_DEF: Final = _definition()


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
