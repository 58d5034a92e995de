"""The settings of SqlSource, and the names in its source partitions and offsets: those of the JDBC source connector."""

import re
from datetime import UTC, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from ringfence.connectors.api import (
    Choices,
    ConfigDef,
    ConfigException,
    ConfigType,
    Importance,
    NonEmpty,
    OneOf,
    ParsedConfig,
    Range,
    ShownIf,
    Width,
)
from ringfence.connectors.unsupported_values import define_unsupported_values

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
"""In a task's configuration: a JSON list of [schema, table], without which a query is read. The schema is null if the
database has none.
"""

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

_IF_SERVER: Final = ShownIf(URL, lambda url: "sqlite:" not in url)
_IF_TIME: Final = ShownIf(MODE, lambda mode: TIMESTAMP_MODE in mode)


_LIMIT: Final = re.compile(r"\s*limit\s+([1-9][0-9]{0,8})[\s;]*", re.IGNORECASE)


def load_zone(name: str) -> tzinfo:
    """Return the time zone. Raises ValueError for an unknown name."""
    if name.upper() == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, OSError) as error:
        raise ValueError(f"no time zone {name!r}") from error


def check_zone(name: str, value: object) -> None:
    """The name of a time zone."""
    try:
        load_zone(str(value))
    except ValueError as error:
        raise ConfigException.invalid(name, value, "Not a time zone, such as UTC or Europe/Berlin") from error


def check_suffix(name: str, value: object) -> None:
    """Require LIMIT and a number."""
    if value is not None and not _LIMIT.fullmatch(str(value)):
        raise ConfigException.invalid(
            name,
            value,
            "Only LIMIT with a number is allowed: rows that OFFSET or SKIP LOCKED skip would be missed, and other "
            "clauses belong in a query",
        )


CONFIG_DEF: Final = (
    ConfigDef()
    .define(
        URL,
        ConfigType.STRING,
        validator=NonEmpty(),
        importance=Importance.HIGH,
        group=_CONNECTION,
        documentation="The database's URL: jdbc:postgresql://host:5432/db, or SQLAlchemy's postgresql://host/db, "
        "mysql://host/db, mariadb://host/db, sqlite:////path.",
        width=Width.LONG,
        display_name="Database",
    )
    .define(
        USER,
        ConfigType.STRING,
        None,
        recommender=_IF_SERVER,
        importance=Importance.HIGH,
        display_name="User",
        group=_CONNECTION,
        documentation="The user to sign in as.",
    )
    .define(
        PASSWORD,
        ConfigType.PASSWORD,
        None,
        recommender=_IF_SERVER,
        importance=Importance.HIGH,
        display_name="Password",
        group=_CONNECTION,
        documentation="The user's password.",
    )
    .define(
        TABLES,
        ConfigType.LIST,
        [],
        importance=Importance.HIGH,
        display_name="Tables",
        group=_TABLES,
        documentation="The tables to read, as table or schema.table. Default: all.",
        width=Width.LONG,
    )
    .define(
        TABLES_EXCLUDE,
        ConfigType.LIST,
        [],
        display_name="Excluded tables",
        group=_TABLES,
        documentation="Tables not to read, as table or schema.table.",
        width=Width.LONG,
    )
    .define(
        SCHEMA,
        ConfigType.STRING,
        None,
        importance=Importance.LOW,
        display_name="Schema",
        group=_TABLES,
        documentation="The schema whose tables are read. Default: the user's own, which is public for PostgreSQL.",
    )
    .define(
        QUERY,
        ConfigType.STRING,
        None,
        display_name="Query",
        group=_TABLES,
        documentation="A SELECT that is read instead of tables, by one task, into the topic that topic.prefix names. "
        "It is wrapped as a subquery, so it may join, filter and group. Its result must contain the "
        "columns of the mode; rows with a null in them are never read.",
        width=Width.LONG,
    )
    .define(
        SUFFIX,
        ConfigType.STRING,
        None,
        validator=check_suffix,
        importance=Importance.LOW,
        display_name="Query suffix",
        group=_TABLES,
        documentation="LIMIT and a number, as in JDBC source connectors: the maximum number of rows per query, like "
        "batch.max.rows, but also in mode bulk.",
    )
    .define(
        PREFIX,
        ConfigType.STRING,
        importance=Importance.HIGH,
        group=_TABLES,
        documentation="A table's topic is this prefix and the table's name, with _ for each character that topics "
        "cannot have; a query's topic is the prefix alone.",
        display_name="Topic prefix",
    )
    .define(
        TABLE_INTERVAL,
        ConfigType.LONG,
        60_000,
        validator=Range(1000),
        importance=Importance.LOW,
        display_name="Look for new tables (ms)",
        group=_TABLES,
        documentation="Milliseconds between two checks for new tables.",
    )
    .define(
        MODE,
        ConfigType.STRING,
        validator=OneOf(*MODES),
        importance=Importance.HIGH,
        recommender=Choices(*MODES),
        display_name="Mode",
        group=_READING,
        documentation="Which rows are read. xmin (PostgreSQL): all that were inserted or updated, exactly, without a "
        "column for it. timestamp+incrementing and timestamp: those with a later time than the last. "
        "incrementing: those with a larger number; rows of transactions that commit late are MISSED. "
        "bulk: all rows, each time.",
    )
    .define(
        INCREMENTING,
        ConfigType.STRING,
        None,
        recommender=ShownIf(MODE, lambda mode: INCREMENTING_MODE in mode),
        importance=Importance.HIGH,
        display_name="Column of numbers",
        group=_READING,
        documentation="The column with increasing numbers.",
    )
    .define(
        TIMESTAMP,
        ConfigType.STRING,
        None,
        recommender=_IF_TIME,
        importance=Importance.HIGH,
        display_name="Column of times",
        group=_READING,
        documentation="The column with the time of a row's last change.",
    )
    .define(
        DELAY,
        ConfigType.LONG,
        5000,
        validator=Range(0),
        recommender=_IF_TIME,
        display_name="Delay (ms)",
        group=_READING,
        documentation="Rows with a time later than this many milliseconds ago are read later: rows of transactions "
        "that take longer from their time to their commit are missed. The JDBC source connector's "
        "default is 0.",
    )
    .define(
        INITIAL,
        ConfigType.LONG,
        None,
        importance=Importance.LOW,
        recommender=_IF_TIME,
        display_name="First time (ms)",
        group=_READING,
        documentation="Start with rows after this time, in milliseconds since 1970; -1: now. Default: with all rows.",
    )
    .define(
        POLL_INTERVAL,
        ConfigType.INT,
        5000,
        validator=Range(10),
        display_name="Poll interval (ms)",
        group=_READING,
        documentation="Milliseconds between two queries of a table without new rows.",
    )
    .define(
        BATCH_ROWS,
        ConfigType.INT,
        2000,
        validator=Range(1),
        importance=Importance.LOW,
        display_name="Rows in a batch",
        group=_READING,
        documentation="The maximum number of rows per query; with transaction.boundary=poll, a query is a "
        "transaction. In mode timestamp, rows with the same time stay together, however many there are.",
    )
    .define(
        NUMERIC,
        ConfigType.STRING,
        NONE,
        validator=OneOf(NONE, BEST_FIT),
        importance=Importance.LOW,
        recommender=Choices(NONE, BEST_FIT),
        display_name="Numeric mapping",
        group=_READING,
        documentation="How NUMERIC columns are written: none as exact decimals; best_fit as integers or doubles if "
        "their precision allows.",
    )
    .define(
        ZONE,
        ConfigType.STRING,
        "UTC",
        validator=check_zone,
        importance=Importance.LOW,
        display_name="Time zone",
        group=_READING,
        documentation="The time zone of columns without one. A zone with daylight saving time repeats an hour each "
        "year: rows of the second pass are missed in the modes with a time.",
    )
    .define(
        NON_NULL,
        ConfigType.BOOLEAN,
        True,
        importance=Importance.LOW,
        display_name="Refuse columns with nulls",
        group=_READING,
        documentation="Refuse nullable columns for times and numbers: a row with a null there is never read.",
    )
)
define_unsupported_values(CONFIG_DEF, _READING)


def query_of(config: ParsedConfig) -> str | None:
    """Return the configured query without a semicolon at its end; None if there is none."""
    text = str(config.get(QUERY) or "")
    last = re.search(r"[^\s;]", text[::-1])  # a search for the end itself takes quadratic time for many blanks
    return text[: len(text) - last.start()].strip() if last else None


def limit_of(config: ParsedConfig) -> int | None:
    """Return the maximum of rows per query by `query.suffix`; None if it is not set."""
    match = _LIMIT.fullmatch(str(config.get(SUFFIX) or ""))
    return int(match[1]) if match else None
