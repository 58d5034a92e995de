"""The settings of SqlSource, and the names in its source partitions and offsets: those of the JDBC source connector."""

import re
from datetime import UTC, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from ringfence.connectors.api import ConfigDef, ConfigException, Importance, ParsedConfig, ShownIf
from ringfence.connectors.sdk.unsupported_values import define_unsupported_values

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


CONFIG_DEF: Final = ConfigDef()
_connection: Final = CONFIG_DEF.group("Connection")
_tables: Final = CONFIG_DEF.group("Tables")
_reading: Final = CONFIG_DEF.group("Reading")

URL: Final = _connection.text(
    "connection.url",
    "The database's URL: jdbc:postgresql://host:5432/db, or SQLAlchemy's postgresql://host/db, "
    "mysql://host/db, mariadb://host/db, sqlite:////path.",
    display_name="Database",
)
_IF_SERVER: Final = ShownIf(URL, lambda url: "sqlite:" not in url)
USER: Final = _connection.text(
    "connection.user",
    "The user to sign in as.",
    None,
    recommender=_IF_SERVER,
    importance=Importance.HIGH,
    display_name="User",
)
PASSWORD: Final = _connection.secret(
    "connection.password",
    "The user's password.",
    recommender=_IF_SERVER,
    importance=Importance.HIGH,
    display_name="Password",
)
TABLES: Final = _tables.items(
    "table.whitelist",
    "The tables to read, as table or schema.table. Default: all.",
    importance=Importance.HIGH,
    display_name="Tables",
)
TABLES_EXCLUDE: Final = _tables.items(
    "table.blacklist", "Tables not to read, as table or schema.table.", display_name="Excluded tables"
)
SCHEMA: Final = _tables.text(
    "schema.pattern",
    "The schema whose tables are read. Default: the user's own, which is public for PostgreSQL.",
    None,
    importance=Importance.LOW,
    display_name="Schema",
)
QUERY: Final = _tables.text(
    "query",
    "A SELECT that is read instead of tables, by one task, into the topic that topic.prefix names. "
    "It is wrapped as a subquery, so it may join, filter and group. Its result must contain the "
    "columns of the mode; rows with a null in them are never read.",
    None,
    display_name="Query",
)
SUFFIX: Final = _tables.text(
    "query.suffix",
    "LIMIT and a number, as in JDBC source connectors: the maximum number of rows per query, like "
    "batch.max.rows, but also in mode bulk.",
    None,
    validator=check_suffix,
    importance=Importance.LOW,
    display_name="Query suffix",
)
PREFIX: Final = _tables.text(
    "topic.prefix",
    "A table's topic is this prefix and the table's name, with _ for each character that topics "
    "cannot have; a query's topic is the prefix alone.",
    validator=None,
    display_name="Topic prefix",
)
TABLE_INTERVAL: Final = _tables.long(
    "table.poll.interval.ms",
    "Milliseconds between two checks for new tables.",
    60_000,
    1000,
    importance=Importance.LOW,
    display_name="Look for new tables (ms)",
)
MODE: Final = _reading.choice(
    "mode",
    "Which rows are read. xmin (PostgreSQL): all that were inserted or updated, exactly, without a column for it. "
    "timestamp+incrementing and timestamp: those with a later time than the last. incrementing: those with a larger "
    "number; rows of transactions that commit late are MISSED. bulk: all rows, each time.",
    MODES,
    display_name="Mode",
)
_IF_TIME: Final = ShownIf(MODE, lambda mode: TIMESTAMP_MODE in mode)
INCREMENTING: Final = _reading.text(
    "incrementing.column.name",
    "The column with increasing numbers.",
    None,
    recommender=ShownIf(MODE, lambda mode: INCREMENTING_MODE in mode),
    importance=Importance.HIGH,
    display_name="Column of numbers",
)
TIMESTAMP: Final = _reading.text(
    "timestamp.column.name",
    "The column with the time of a row's last change.",
    None,
    recommender=_IF_TIME,
    importance=Importance.HIGH,
    display_name="Column of times",
)
DELAY: Final = _reading.long(
    "timestamp.delay.interval.ms",
    "Rows with a time later than this many milliseconds ago are read later: rows of transactions that take longer "
    "from their time to their commit are missed. The JDBC source connector's default is 0.",
    5000,
    0,
    recommender=_IF_TIME,
    display_name="Delay (ms)",
)
INITIAL: Final = _reading.long(
    "timestamp.initial",
    "Start with rows after this time, in milliseconds since 1970; -1: now. Default: with all rows.",
    None,
    recommender=_IF_TIME,
    importance=Importance.LOW,
    display_name="First time (ms)",
)
POLL_INTERVAL: Final = _reading.integer(
    "poll.interval.ms",
    "Milliseconds between two queries of a table without new rows.",
    5000,
    10,
    display_name="Poll interval (ms)",
)
BATCH_ROWS: Final = _reading.integer(
    "batch.max.rows",
    "The maximum number of rows per query; with transaction.boundary=poll, a query is a "
    "transaction. In mode timestamp, rows with the same time stay together, however many there are.",
    2000,
    1,
    importance=Importance.LOW,
    display_name="Rows in a batch",
)
NUMERIC: Final = _reading.choice(
    "numeric.mapping",
    "How NUMERIC columns are written: none as exact decimals; best_fit as integers or doubles if "
    "their precision allows.",
    (NONE, BEST_FIT),
    NONE,
    importance=Importance.LOW,
    display_name="Numeric mapping",
)
ZONE: Final = _reading.text(
    "db.timezone",
    "The time zone of columns without one. A zone with daylight saving time repeats an hour each "
    "year: rows of the second pass are missed in the modes with a time.",
    "UTC",
    validator=check_zone,
    importance=Importance.LOW,
    display_name="Time zone",
)
NON_NULL: Final = _reading.flag(
    "validate.non.null",
    "Refuse nullable columns for times and numbers: a row with a null there is never read.",
    True,
    importance=Importance.LOW,
    display_name="Refuse columns with nulls",
)
define_unsupported_values(_reading)


def query_of(config: ParsedConfig) -> str | None:
    """Return the configured query without a semicolon at its end; None if there is none."""
    text = str(config.get(QUERY) or "")
    last = re.search(r"[^\s;]", text[::-1])  # a search for the end itself takes quadratic time for many blanks
    return text[: len(text) - last.start()].strip() if last else None


def limit_of(config: ParsedConfig) -> int | None:
    """Return the maximum of rows per query by `query.suffix`; None if it is not set."""
    match = _LIMIT.fullmatch(str(config.get(SUFFIX) or ""))
    return int(match[1]) if match else None
