"""The settings of SqlSource, and the names in its source partitions and offsets: those of the JDBC source connector."""

import re
from typing import Final

from ringfence.connectors.api import (
    ConfigDef,
    ConfigException,
    ConfigType,
    Importance,
    NonEmpty,
    OneOf,
    ParsedConfig,
    Range,
    Width,
)
from ringfence.connectors.builtin.sql.zones import load_zone

URL: Final = "connection.url"
USER: Final = "connection.user"
PASSWORD: Final = "connection.password"  # noqa: S105 - the name of a setting
MODE: Final = "mode"
INCREMENTING: Final = "incrementing.column.name"
TIMESTAMP: Final = "timestamp.column.name"
TABLES: Final = "table.whitelist"
TABLES_EXCLUDE: Final = "table.blacklist"
SCHEMA: Final = "schema.pattern"
QUERY: Final = "query"
SUFFIX: Final = "query.suffix"
PREFIX: Final = "topic.prefix"
POLL_INTERVAL: Final = "poll.interval.ms"
TABLE_INTERVAL: Final = "table.poll.interval.ms"
BATCH_ROWS: Final = "batch.max.rows"
DELAY: Final = "timestamp.delay.interval.ms"
INITIAL: Final = "timestamp.initial"
NUMERIC: Final = "numeric.mapping"
ZONE: Final = "db.timezone"
NON_NULL: Final = "validate.non.null"

TASK_TABLES: Final = "tables"
"""In the configuration of a task: a JSON list of [schema, table]; the schema is null where the database has none. Not
there where a query is read."""

BULK: Final = "bulk"
INCREMENTING_MODE: Final = "incrementing"
TIMESTAMP_MODE: Final = "timestamp"
BOTH_MODE: Final = "timestamp+incrementing"
XMIN: Final = "xmin"
MODES: Final = (BULK, TIMESTAMP_MODE, INCREMENTING_MODE, BOTH_MODE, XMIN)

NONE: Final = "none"
BEST_FIT: Final = "best_fit"

_CONNECTION: Final = "Connection"
_TABLES: Final = "Tables"
_READING: Final = "Reading"


def check_zone(name: str, value: object) -> None:
    """The name of a time zone."""
    try:
        load_zone(str(value))
    except ValueError as error:
        raise ConfigException.invalid(name, value, "Not a time zone, such as UTC or Europe/Berlin") from error


_LIMIT: Final = re.compile(r"\s*limit\s+([1-9][0-9]{0,8})[\s;]*", re.IGNORECASE)


def check_suffix(name: str, value: object) -> None:
    """LIMIT and a number."""
    if value is not None and not _LIMIT.fullmatch(str(value)):
        raise ConfigException.invalid(
            name,
            value,
            "Only LIMIT with a number can be here: rows that OFFSET or SKIP LOCKED leave out would be missed, and "
            "other clauses belong into a query",
        )


CONFIG_DEF: Final = (
    ConfigDef()
    .define(
        URL,
        ConfigType.STRING,
        validator=NonEmpty(),
        importance=Importance.HIGH,
        group=_CONNECTION,
        documentation="Where the database is: jdbc:postgresql://host:5432/db, or SQLAlchemy's postgresql://host/db, "
        "mysql://host/db, mariadb://host/db, sqlite:////path.",
        width=Width.LONG,
        display_name="Database",
    )
    .define(USER, ConfigType.STRING, None, group=_CONNECTION, documentation="The user to sign in as.")
    .define(PASSWORD, ConfigType.PASSWORD, None, group=_CONNECTION, documentation="The user's password.")
    .define(
        TABLES,
        ConfigType.LIST,
        [],
        importance=Importance.HIGH,
        group=_TABLES,
        documentation="The tables to read, as table or schema.table. Default: all.",
        width=Width.LONG,
    )
    .define(
        TABLES_EXCLUDE,
        ConfigType.LIST,
        [],
        group=_TABLES,
        documentation="Tables not to read, as table or schema.table.",
        width=Width.LONG,
    )
    .define(
        SCHEMA,
        ConfigType.STRING,
        None,
        importance=Importance.LOW,
        group=_TABLES,
        documentation="The schema whose tables are read. Default: the user's own, which is public for PostgreSQL.",
    )
    .define(
        QUERY,
        ConfigType.STRING,
        None,
        group=_TABLES,
        documentation="A SELECT that is read in place of tables, by one task, into the topic that topic.prefix names. "
        "It is wrapped as a subselect, so it may join, filter and group; the columns of the mode must be in its "
        "result, and rows with a null there are never read.",
        width=Width.LONG,
    )
    .define(
        SUFFIX,
        ConfigType.STRING,
        None,
        validator=check_suffix,
        importance=Importance.LOW,
        group=_TABLES,
        documentation="LIMIT and a number, as JDBC source connectors have it: at most so many rows of one query, like "
        "batch.max.rows, and in mode bulk, too.",
    )
    .define(
        PREFIX,
        ConfigType.STRING,
        importance=Importance.HIGH,
        group=_TABLES,
        documentation="The topic of a table is this prefix and the table's name; that of a query is this alone.",
        display_name="Topic prefix",
    )
    .define(
        TABLE_INTERVAL,
        ConfigType.LONG,
        60_000,
        validator=Range(1000),
        importance=Importance.LOW,
        group=_TABLES,
        documentation="Milliseconds between two looks for new tables.",
    )
    .define(
        MODE,
        ConfigType.STRING,
        validator=OneOf(*MODES),
        importance=Importance.HIGH,
        group=_READING,
        documentation="Which rows are read. xmin (PostgreSQL): all that were inserted or updated, exactly, without a "
        "column for it. timestamp+incrementing and timestamp: those whose time is later than the last. incrementing: "
        "those with a larger number; rows of transactions that commit late are MISSED. bulk: all rows, each time.",
    )
    .define(
        INCREMENTING,
        ConfigType.STRING,
        None,
        group=_READING,
        documentation="The column whose numbers only grow.",
    )
    .define(
        TIMESTAMP,
        ConfigType.STRING,
        None,
        group=_READING,
        documentation="The column with the time of the last change of a row.",
    )
    .define(
        DELAY,
        ConfigType.LONG,
        5000,
        validator=Range(0),
        group=_READING,
        documentation="Rows with a time later than so many milliseconds ago are left for later: rows of transactions "
        "that take longer from their time to their commit are missed. The JDBC source connector's default is 0.",
    )
    .define(
        INITIAL,
        ConfigType.LONG,
        None,
        importance=Importance.LOW,
        group=_READING,
        documentation="Begin with rows after this time, in milliseconds since 1970; -1: now. Default: with all rows.",
    )
    .define(
        POLL_INTERVAL,
        ConfigType.INT,
        5000,
        validator=Range(10),
        group=_READING,
        documentation="Milliseconds between two queries of a table that had nothing new.",
    )
    .define(
        BATCH_ROWS,
        ConfigType.INT,
        2000,
        validator=Range(1),
        importance=Importance.LOW,
        group=_READING,
        documentation="The most rows of one query: with transaction.boundary=poll, of one transaction. Rows with the "
        "same time stay together in mode timestamp, however many they are.",
    )
    .define(
        NUMERIC,
        ConfigType.STRING,
        NONE,
        validator=OneOf(NONE, BEST_FIT),
        importance=Importance.LOW,
        group=_READING,
        documentation="How NUMERIC columns are written: none as exact decimals; best_fit as integers or doubles where "
        "their precision allows.",
    )
    .define(
        ZONE,
        ConfigType.STRING,
        "UTC",
        validator=check_zone,
        importance=Importance.LOW,
        group=_READING,
        documentation="The time zone of columns that have none. One with daylight saving time repeats an hour each "
        "year: rows of the second pass are missed in the modes with a time.",
    )
    .define(
        NON_NULL,
        ConfigType.BOOLEAN,
        True,
        importance=Importance.LOW,
        group=_READING,
        documentation="Refuse columns for times and numbers that may be null: a row with a null there is never read.",
    )
)


def query_of(parsed: ParsedConfig) -> str | None:
    """The query that a configuration sets, without a semicolon at its end."""
    return re.sub(r"[\s;]+\Z", "", str(parsed.get(QUERY) or "")).strip() or None


def limit_of(parsed: ParsedConfig) -> int | None:
    """The most rows of one query that `query.suffix` allows."""
    found = _LIMIT.fullmatch(str(parsed.get(SUFFIX) or ""))
    return int(found[1]) if found else None
