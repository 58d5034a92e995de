"""The settings of PostgresSource. Names and defaults are Debezium's if it has the setting."""

from typing import Final

from ringfence.connectors.api import (
    ConfigDef,
    ConfigType,
    Importance,
    NonEmpty,
    OneOf,
    Range,
    Width,
)
from ringfence.connectors.builtin.postgres import field_names
from ringfence.connectors.builtin.postgres import setting_names as names
from ringfence.connectors.builtin.postgres.selection import check_patterns
from ringfence.connectors.builtin.postgres.setting_checks import (
    check_key_columns,
    check_operations,
    check_slot_name,
    check_topic_prefix,
)
from ringfence.connectors.unsupported_values import Handling, define_unsupported_values

_CONNECTION: Final = "Connection"
_TABLES: Final = "Tables"
_RECORDS: Final = "Records"
_STREAM: Final = "Replication"


_CHOSEN: Final = (names.SCHEMAS, names.SCHEMAS_EXCLUDE, names.TABLES, names.TABLES_EXCLUDE)
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
        names.HOST,
        ConfigType.STRING,
        validator=NonEmpty(),
        importance=Importance.HIGH,
        group=_CONNECTION,
        documentation="Name or address of the database server.",
        display_name="Host",
        dependents=_CHOSEN,
    )
    number(names.PORT, _CONNECTION, "Port of the database server.", 5432, 1, 65535)
    definition.define(
        names.USER,
        ConfigType.STRING,
        validator=NonEmpty(),
        importance=Importance.HIGH,
        group=_CONNECTION,
        documentation="User with the REPLICATION attribute, and SELECT on the tables.",
        display_name="User",
        dependents=_CHOSEN,
    )
    definition.define(
        names.PASSWORD,
        ConfigType.PASSWORD,
        None,
        importance=Importance.HIGH,
        group=_CONNECTION,
        documentation="The user's password.",
        display_name="Password",
        dependents=_CHOSEN,
    )
    definition.define(
        names.DATABASE,
        ConfigType.STRING,
        validator=NonEmpty(),
        importance=Importance.HIGH,
        group=_CONNECTION,
        documentation="The database whose changes are read.",
        display_name="Database",
        dependents=_CHOSEN,
    )
    choice(
        names.SSL_MODE,
        _CONNECTION,
        "Whether to encrypt the connection, and to verify the server's certificate.",
        *("disable", "allow", "prefer", "require", "verify-ca", "verify-full"),
        default="prefer",
    )
    text(names.SSL_ROOT, _CONNECTION, "File with the CA certificates that verify the server's certificate.")
    definition.define(
        names.PREFIX,
        ConfigType.STRING,
        validator=check_topic_prefix,
        importance=Importance.HIGH,
        group=_TABLES,
        documentation="Prefix of topic names: prefix.schema.table. Do not change it later.",
        display_name="Topic prefix",
    )
    patterns(names.SCHEMAS, _TABLES, "Schemas to read, as regular expressions. Default: all but PostgreSQL's own.")
    patterns(names.SCHEMAS_EXCLUDE, _TABLES, "Schemas to exclude, as regular expressions.")
    patterns(names.TABLES, _TABLES, "Tables to read, as regular expressions for schema.table. Default: all.")
    patterns(names.TABLES_EXCLUDE, _TABLES, "Tables to exclude, as regular expressions for schema.table.")
    patterns(names.COLUMNS, _TABLES, "Columns to read, as regular expressions for schema.table.column. Default: all.")
    patterns(names.COLUMNS_EXCLUDE, _TABLES, "Columns to exclude, as regular expressions for schema.table.column.")
    text(
        names.KEY_COLUMNS,
        _TABLES,
        "Record keys in place of primary keys: schema.table:column,column;… The table is a regular expression.",
        validator=check_key_columns,
        importance=Importance.LOW,
    )
    text(
        names.SLOT,
        _STREAM,
        "Name of the replication slot. It is created if it is missing.",
        "debezium",
        validator=check_slot_name,
    )
    flag(
        names.SLOT_FAILOVER,
        _STREAM,
        "Synchronize the slot to standbys (PostgreSQL 17 or newer).",
        False,
    )
    definition.define(
        names.RETAINED_WARN,
        ConfigType.LONG,
        5 * 1024**3,
        group=_STREAM,
        validator=Range(0),
        importance=Importance.LOW,
        documentation="If the server retains more bytes of write-ahead log for the slot, the connector's page and an "
        "alert report it; 0: never. At most 80 % of max_slot_wal_keep_size.",
    )
    text(names.PUBLICATION, _STREAM, "Name of the publication.", "dbz_publication", validator=NonEmpty())
    choice(
        names.AUTOCREATE,
        _STREAM,
        "How a missing publication is created: for all tables, for the captured tables, for none, or not at all.",
        *(names.ALL_TABLES, names.FILTERED, names.NO_TABLES, names.DISABLED),
        default=names.ALL_TABLES,
    )
    flag(names.VIA_ROOT, _STREAM, "Publish changes of partitions as changes of their root table.", False)
    choice(names.PLUGIN, _STREAM, "The output plugin of the slot.", "pgoutput", default="pgoutput")
    choice(
        names.SNAPSHOT,
        _STREAM,
        "initial: if nothing is committed yet, read the existing rows, then changes; initial_only: the rows, but no "
        "changes; no_data: changes from now on; when_needed: as initial, and read the rows again if changes were lost, "
        "for example because the slot was dropped.",
        *(names.INITIAL, names.INITIAL_ONLY, names.NO_DATA, names.WHEN_NEEDED),
        default=names.INITIAL,
    )
    number(
        names.RANGE_ROWS,
        _STREAM,
        "Approximate rows in a range of the snapshot. The ranges are distributed to up to tasks.max tasks.",
        100_000,
        1,
    )
    text(
        names.SIGNALS,
        _STREAM,
        "Debezium's signal table, schema.table, with the columns id, type and data. It must be in the publication.",
        importance=Importance.LOW,
    )
    number(names.CHUNK_SIZE, _STREAM, "Rows in a chunk of an incremental snapshot.", 1024, 1, 100_000)
    choice(
        names.TRANSACTIONS,
        _STREAM,
        "whole: a transaction of the database is never visible in parts (with transaction.boundary=connector); split: "
        "transaction.boundary alone determines where transactions end.",
        *(names.WHOLE, names.SPLIT),
        default=names.WHOLE,
    )
    number(
        names.TRANSACTION_ROWS,
        _STREAM,
        "A transaction of the database with more changes becomes visible in parts, with a warning.",
        500_000,
        1,
    )
    number(
        names.HEARTBEAT,
        _STREAM,
        "Milliseconds after which the position is committed if no captured table has changed; 0: a minute, without "
        "records in the heartbeat topic.",
        0,
        0,
    )
    text(names.HEARTBEAT_PREFIX, _STREAM, "Prefix of the heartbeat topic's name.", "__debezium-heartbeat")
    text(names.HEARTBEAT_QUERY, _STREAM, "SQL to run with each heartbeat.")
    # About one produce request. If more records wait while a request is in flight, librdkafka's thread polls its
    # connection without a pause (`rd_kafka_toppar_producer_serve` in 2.16), and slows down a broker on this machine.
    number(names.BATCH_SIZE, _STREAM, "Maximum number of records in a batch.", 2048, 1)
    choice(
        names.FIELD_NAMES,
        _RECORDS,
        "How to name fields of columns whose names Avro does not allow. none: as the columns, or as with avro if the "
        "connector has an AvroConverter of its own; avro: with underscores; avro_unicode: with the codes of "
        "characters, such as _u005f, also for underscores.",
        *(field_names.NONE, field_names.AVRO, field_names.AVRO_UNICODE),
        default=field_names.NONE,
    )
    choice(
        names.DECIMALS, _RECORDS, "How numeric and money are written.", "precise", "double", "string", default="precise"
    )
    choice(
        names.TIMES,
        _RECORDS,
        "How dates and times are written: with the column's precision, in microseconds, or as Kafka Connect's types.",
        *("adaptive", "adaptive_time_microseconds", "connect"),
        default="adaptive",
    )
    choice(
        names.INTERVALS,
        _RECORDS,
        "How intervals are written: microseconds or ISO 8601.",
        "numeric",
        "string",
        default="numeric",
    )
    choice(
        names.BINARY,
        _RECORDS,
        "How bytea is written.",
        *("bytes", "base64", "base64-url-safe", "hex"),
        default="bytes",
    )
    choice(names.HSTORE, _RECORDS, "How hstore is written.", "json", "map", default="json")
    number(names.MONEY_DIGITS, _RECORDS, "Decimal places of money.", 2, 0, 9)
    define_unsupported_values(definition, _RECORDS, default=Handling.NULL)
    flag(names.UNKNOWN_TYPES, _RECORDS, "Write columns of unsupported types as the bytes of their text.", False)
    text(
        names.PLACEHOLDER,
        _RECORDS,
        "Replaces a large value that an update did not change: the server does not send it.",
        "__debezium_unavailable_value",
    )
    flag(names.TOMBSTONES, _RECORDS, "Write a tombstone after each delete, so that compaction removes the key.", True)
    definition.define(
        names.SKIPPED,
        ConfigType.LIST,
        "t",
        group=_RECORDS,
        validator=check_operations,
        importance=Importance.LOW,
        documentation="Operations without records: c, u, d, t(runcate), m(essage), r(ead in a snapshot); or none.",
    )
    flag(
        names.METADATA,
        _RECORDS,
        "Write the beginning and end of transactions to the topic prefix.transaction, and number their records.",
        False,
    )
    flag(names.CONTEXT_HEADERS, _RECORDS, "Write headers with the connector's name and the task's id.", True)
    patterns(
        names.MESSAGES, _RECORDS, "Prefixes of logical decoding messages to read, as regular expressions. Default: all."
    )
    patterns(
        names.MESSAGES_EXCLUDE, _RECORDS, "Prefixes of logical decoding messages to exclude, as regular expressions."
    )
    return definition


CONFIG_DEF: Final = _definition()
