"""What is read: the tables that a configuration selects, or a query of the user, their columns as Kafka Connect's
fields, and their source partitions.

A query is wrapped as a subquery; conditions, order and limit are outside of it. The JDBC source connector appends its
WHERE to the text of the query instead. A wrapped query may have its own WHERE, GROUP BY or UNION, and cannot become
another kind of statement. Fields have the JDBC source connector's types.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects import mysql, postgresql
from sqlalchemy.engine import Connection
from sqlalchemy.engine.interfaces import ReflectedColumn

from ringfence.connectors.api import ConnectorError, DataException, ParsedConfig
from ringfence.connectors.api import schemas as connect
from ringfence.connectors.builtin.sql import settings as names
from ringfence.connectors.builtin.sql.database import Database
from ringfence.connectors.builtin.sql.driver_values import ColumnType, DriverValues, Row
from ringfence.connectors.sdk.names import MAX_NAME_BYTES
from ringfence.connectors.sdk.row_records import ValueOf
from ringfence.connectors.sdk.unsupported_values import Handling

Columns = list["sa.Column[Any]"]

_NAME: Final = "query"
_POSTGRESQL: Final[dict[int, type["sa.types.TypeEngine[Any]"]]] = {
    16: sa.Boolean,
    17: sa.LargeBinary,
    20: sa.BigInteger,
    21: sa.SmallInteger,
    23: sa.Integer,
    **dict.fromkeys((18, 19, 25, 1042, 1043), sa.String),
    114: postgresql.JSON,
    3802: postgresql.JSONB,
    **dict.fromkeys((700, 701), sa.Float),
    1082: sa.Date,
    **dict.fromkeys((1083, 1266), sa.Time),
}
"""By the types' object ids, which never change. Types with parameters are in `_postgresql`."""


def reflect_query(database: Database, connection: Connection, query: str) -> sa.Subquery:
    """Return the query with its columns. Reads no rows. Raises `ConnectorError` and
    `sqlalchemy.exc.SQLAlchemyError`.
    """
    if database.kind == "sqlite":
        columns = _from_view(connection, query)
    else:
        columns = _from_description(database, connection, query)
    column_names = [str(one.name) for one in columns]
    if twice := sorted({one for one in column_names if column_names.count(one) > 1}):
        raise ConnectorError(f"{names.QUERY}: several columns are called {twice[0]}. Rename them with AS.")
    return _text(query).columns(*columns).subquery(_NAME)


def _text(query: str) -> sa.TextClause:
    """The line break ends a comment; colons are not parameters here."""
    return sa.text(query.replace(":", "\\:") + "\n")


def _from_view(connection: Connection, query: str) -> Columns:
    """SQLite knows the declared types of a view's columns, but not those of a result."""
    escaped = _text(query).text
    inspected_columns = _inspect(connection, "VIEW", escaped)
    if not any(isinstance(one["type"], sa.types.NullType) for one in inspected_columns):
        return [sa.Column(one["name"], one["type"]) for one in inspected_columns]
    # A table also has the types that CAST names.
    cast = _inspect(connection, "TABLE", f"SELECT * FROM (\n{escaped}) LIMIT 0")  # noqa: S608 - accepted as a view's
    return [
        sa.Column(one["name"], _of_cast(other["type"]) if isinstance(one["type"], sa.types.NullType) else one["type"])
        for one, other in zip(inspected_columns, cast, strict=True)
    ]


def _inspect(connection: Connection, kind: str, query: str) -> Sequence[ReflectedColumn]:
    """Return the columns of a temporary view or table of the query."""
    connection.execute(sa.text(f"CREATE TEMP {kind} {_NAME} AS {query}"))
    try:
        return sa.inspect(connection).get_columns(_NAME, schema="temp")
    finally:
        connection.execute(sa.text(f"DROP {kind} temp.{_NAME}"))


def _of_cast(type: "sa.types.TypeEngine[Any]") -> "sa.types.TypeEngine[Any]":
    """Return the type if CAST guarantees it; a NUMERIC may be anything."""
    return sa.types.NullType() if isinstance(type, sa.Numeric) and not isinstance(type, sa.Float) else type


def _from_description(database: Database, connection: Connection, query: str) -> Columns:
    # The limit is a parameter: with parameters, PostgreSQL refuses several statements in one text.
    everything: sa.Select[Any] = (
        sa.select(sa.literal_column("*")).select_from(_text(query).columns().subquery(_NAME)).limit(0)
    )
    with connection.execute(everything) as result:
        cursor: Any = result.cursor
        if database.kind == "postgresql":
            # The description does not say whether a query's column may be null.
            return [sa.Column(one.name, _postgresql(one)) for one in cursor.description]
        # Descriptions do not say whether numbers are unsigned and strings binary.
        return [sa.Column(one.name, _mysql(one), nullable=not one.flags & 1) for one in cursor._result.fields]


def describe_mysql(connection: Connection, table: sa.Table) -> None:
    """Give the table's columns of types that SQLAlchemy does not know, such as POINT, those that the server tells."""
    unknown = [one for one in table.columns if isinstance(one.type, sa.types.NullType)]
    if unknown:
        with connection.execute(sa.select(*unknown).limit(0)) as result:
            cursor: Any = result.cursor
            for column, field in zip(unknown, cursor._result.fields, strict=True):
                column.type = _mysql(field)


def _postgresql(column: Any) -> "sa.types.TypeEngine[Any]":
    """column: psycopg's description."""
    if column.type_code == 1700:
        return sa.Numeric(column.precision, column.scale)
    if column.type_code in (1114, 1184):
        return sa.DateTime(timezone=column.type_code == 1184)
    return _POSTGRESQL.get(column.type_code, sa.types.NullType)()


def _mysql(field: Any) -> "sa.types.TypeEngine[Any]":
    """field: the server's description, as PyMySQL reads it."""
    from pymysql.constants import FIELD_TYPE, FLAG

    code, unsigned = field.type_code, bool(field.flags & FLAG.UNSIGNED)
    binary = field.charsetnr == 63
    if code in (FIELD_TYPE.DECIMAL, FIELD_TYPE.NEWDECIMAL):
        # The length of the longest text, with sign and point.
        precision = field.length - (not unsigned) - bool(field.scale)
        return mysql.DECIMAL(precision, field.scale)
    integers = {
        FIELD_TYPE.TINY: mysql.TINYINT,
        FIELD_TYPE.SHORT: mysql.SMALLINT,
        FIELD_TYPE.INT24: mysql.MEDIUMINT,
        FIELD_TYPE.LONG: mysql.INTEGER,
        FIELD_TYPE.LONGLONG: mysql.BIGINT,
    }
    if code == FIELD_TYPE.BIT:
        return mysql.BIT(field.length)
    if code in integers:
        return integers[code](unsigned=unsigned)
    texts = (
        *(FIELD_TYPE.VARCHAR, FIELD_TYPE.VAR_STRING, FIELD_TYPE.STRING),
        *(FIELD_TYPE.TINY_BLOB, FIELD_TYPE.BLOB, FIELD_TYPE.MEDIUM_BLOB, FIELD_TYPE.LONG_BLOB),
    )
    if code in texts:
        return sa.LargeBinary() if binary else sa.String()
    others: dict[int, type[sa.types.TypeEngine[Any]]] = {
        FIELD_TYPE.FLOAT: mysql.FLOAT,
        FIELD_TYPE.DOUBLE: mysql.DOUBLE,
        FIELD_TYPE.DATE: sa.Date,
        FIELD_TYPE.NEWDATE: sa.Date,
        FIELD_TYPE.DATETIME: mysql.DATETIME,
        FIELD_TYPE.TIMESTAMP: mysql.TIMESTAMP,
        FIELD_TYPE.TIME: mysql.TIME,
        FIELD_TYPE.YEAR: mysql.YEAR,
        FIELD_TYPE.JSON: sa.String,
        FIELD_TYPE.GEOMETRY: sa.LargeBinary,
    }
    return others.get(code, sa.types.NullType)()


TableName = tuple[str | None, str]
"""Schema and table."""
QUERY_PARTITION: Final[Mapping[str, object]] = {"query": "query"}
"""The source partition of a query."""
_LONGEST_KEY: Final = 200
_NOT_IN_TOPICS: Final = re.compile(r"[^a-zA-Z0-9._-]")


def list_tables(database: Database, connection: Connection, settings: ParsedConfig) -> list[TableName]:
    """Return the selected tables, sorted."""
    default = _schema(database, connection, settings)
    included, unwanted = ({str(one) for one in settings.strings(each)} for each in (names.TABLES, names.TABLES_EXCLUDE))
    return [
        one
        for one in list_all_tables(database, connection, settings)
        if (not included or _names(one, default) & included) and not _names(one, default) & unwanted
    ]


def list_all_tables(database: Database, connection: Connection, settings: ParsedConfig) -> list[TableName]:
    """Return the tables of the schema, and of the schemas in `table.whitelist`, sorted."""
    included = {str(one) for one in settings.strings(names.TABLES)}
    schemas = {
        _schema(database, connection, settings),
        *(one.rpartition(".")[0] for one in included if "." in one),
    }
    inspector = sa.inspect(connection)
    tables = [(one, table) for one in schemas for table in inspector.get_table_names(schema=one)]
    return sorted(tables, key=lambda one: (one[0] or "", one[1]))


def _schema(database: Database, connection: Connection, settings: ParsedConfig) -> str | None:
    default = sa.inspect(connection).default_schema_name if database.kind != "sqlite" else None
    return str(settings.get(names.SCHEMA) or "") or default


def find_missing(tables: Sequence[TableName], settings: ParsedConfig) -> list[str]:
    """Return tables that the configuration names and the database does not have."""
    table_names = {name for one in tables for name in (one[1], f"{one[0]}.{one[1]}")}
    return sorted(str(one) for one in settings.strings(names.TABLES) if one not in table_names)


def topic_of(prefix: str, table: str) -> str:
    """Return a table's topic: `_` stands for each character that topics cannot have."""
    return prefix + _NOT_IN_TOPICS.sub("_", table)


def find_topic_error(prefix: str, tables: Sequence[TableName]) -> str | None:
    """Return why two tables cannot have their topics; None if they can."""
    tables_by_topic: dict[str, str] = {}
    for _, name in tables:
        topic = topic_of(prefix, name)
        former = tables_by_topic.setdefault(topic, name)
        if former != name:
            return (
                f"The tables {former} and {name} would have one topic, {topic}, since topics cannot have all "
                f"characters of their names. Read them by two connectors, each with its own {names.PREFIX}."
            )
    return None


def find_name_error(topic: str) -> str | None:
    """Return why a topic cannot have that name; None if it can."""
    if topic in (".", "..") or len(topic) > MAX_NAME_BYTES or _NOT_IN_TOPICS.search(topic):
        proposed = _NOT_IN_TOPICS.sub("_", topic)[:MAX_NAME_BYTES]
        return (
            f"{topic[:300]!r} cannot be a topic: a name has 1 to {MAX_NAME_BYTES} characters, which are letters a to "
            f"z, digits, '.', '_' and '-'; and it is not '.' or '..'. Possible is {proposed.strip('.') or 'rows'!r}."
        )
    return None


def partitions_of(database: Database, table: TableName) -> list[dict[str, object]]:
    """Return the table's source partition, then the other partitions that the JDBC source connector may have used."""
    schema, name = table
    inner = f"{schema}.{name}" if schema else name
    full = f"{database.name}.{inner}" if database.kind == "postgresql" and database.name else inner
    unique = dict.fromkeys((full, inner, name))
    current: list[dict[str, object]] = [{"protocol": "1", "table": one} for one in unique]
    return [*current, {"table": name}]


def reflect_table(connection: Connection, table: TableName) -> sa.Table:
    """Return the table with its columns. Raises `sqlalchemy.exc.SQLAlchemyError`."""
    reflected = sa.Table(table[1], sa.MetaData(), schema=table[0], autoload_with=connection, resolve_fks=False)
    if connection.dialect.name in ("mysql", "mariadb"):
        describe_mysql(connection, reflected)
    return reflected


def key_of(relation: sa.FromClause, others: "Sequence[sa.Column[Any]]") -> Callable[[Row], str]:
    """Return a function that names a row in messages: by its primary key, or by other columns."""
    columns = [one for one in relation.columns if isinstance(one, sa.Column)]
    key = [one for one in columns if one.primary_key] or [*others]
    places = [(str(one.name), columns.index(one)) for one in key]

    def name(row: Row) -> str:
        text = ", ".join(f"{column}={row[place]}" for column, place in places) or "without a key"
        return text if len(text) <= _LONGEST_KEY else f"{text[:_LONGEST_KEY]}…"

    return name


def _names(table: TableName, default: str | None) -> set[str]:
    schema, name = table
    return {f"{schema}.{name}", *([name] if schema == default else [])}


_BINARY: Final = (sa.LargeBinary, sa.BINARY, sa.VARBINARY, mysql.TINYBLOB, mysql.MEDIUMBLOB, mysql.LONGBLOB)


def describe_all(relation: sa.FromClause, values: DriverValues, numeric: str) -> Sequence[tuple[str, ColumnType]]:
    """Return the names and fields of all columns. numeric: see the setting `numeric.mapping`."""
    # SQLAlchemy's names are instances of its own class, which no converter knows.
    return [(str(one.name), describe(one, values, numeric)) for one in relation.columns if isinstance(one, sa.Column)]


def describe(column: "sa.Column[Any]", values: DriverValues, numeric: str) -> ColumnType:
    """Return the field of a column, with the chosen treatment of values that its type cannot hold."""
    described = _describe(column.type, values, numeric)
    schema, value_of = described.schema, described.value_of
    if values.wide and _is_row_id(column):
        described = described._replace(partial=False)
    if described.partial and values.handling is Handling.TEXT:
        schema, value_of = connect.STRING, described.text_of
    elif described.partial and values.handling is Handling.NULL and value_of is not None:
        schema, value_of = schema.but(optional=True), _or_null(value_of)
    return described._replace(schema=schema.but(optional=True) if column.nullable else schema, value_of=value_of)


def _is_row_id(column: "sa.Column[Any]") -> bool:
    """Return whether it is SQLite's INTEGER PRIMARY KEY, the only column of which it checks the values."""
    alone = column.primary_key and len(column.table.primary_key.columns) == 1
    return bool(alone) and isinstance(column.type, sa.Integer)


def _or_null(value_of: ValueOf) -> ValueOf:
    def convert(value: object) -> object:
        try:
            return value_of(value)
        except DataException:
            return None

    return convert


def _describe(type: "sa.types.TypeEngine[Any]", values: DriverValues, numeric: str) -> ColumnType:
    if isinstance(type, postgresql.DOMAIN):
        return _describe(type.data_type, values, numeric)
    if isinstance(type, sa.Boolean):
        return values.boolean()
    if isinstance(type, sa.Integer):
        return _integer(type, values)
    if isinstance(type, sa.Float):  # a subclass of Numeric
        return values.real()
    if isinstance(type, sa.Numeric):
        return _number(type, values, numeric)
    if isinstance(type, sa.DateTime):
        return values.timestamp()
    if isinstance(type, sa.Date):
        return values.date()
    if isinstance(type, sa.Time):
        return values.time_of_day()
    if isinstance(type, _BINARY):
        return values.binary()
    if isinstance(type, mysql.BIT):
        return _bits(type.length or 1)
    return values.text() if isinstance(type, sa.String) else values.other()


def _integer(type: "sa.Integer", values: DriverValues) -> ColumnType:
    unsigned = bool(getattr(type, "unsigned", False))  # for MySQL
    if values.wide:
        return values.integer(connect.INT64)
    if isinstance(type, sa.SmallInteger):
        return values.integer(connect.INT32 if unsigned else connect.INT16)
    if isinstance(type, sa.BigInteger):
        return values.big_unsigned_integer() if unsigned else values.integer(connect.INT64)
    return values.integer(connect.INT64 if unsigned else connect.INT32)


def _number(type: "sa.Numeric[Any]", values: DriverValues, numeric: str) -> ColumnType:
    precision, scale = type.precision, type.scale
    if precision is None and scale is None:
        return values.decimal_as_text()  # the JDBC source connector's decimal with 127 places is useless
    scale = scale or 0
    if numeric == names.BEST_FIT and precision is not None and precision < 19:
        if scale > 0:
            return values.decimal_as_real()
        if precision - scale < 19:
            return values.decimal_as_integer(connect.INT32 if precision - scale < 10 else connect.INT64)
    return values.decimal(scale)


def _bits(length: int) -> ColumnType:
    """MySQL's bits, as its JDBC driver delivers them: one as a small number, more as bytes."""
    if length == 1:
        return ColumnType(connect.INT8, lambda value: int.from_bytes(value, "big"))
    return ColumnType(connect.BYTES)
