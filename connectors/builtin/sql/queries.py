"""A user's query as a selectable, and the types of its columns.

The query is wrapped as a subquery; conditions, order and limit are outside of it. The JDBC source connector appends its
WHERE to the text of the query instead. A wrapped query may have its own WHERE, GROUP BY or UNION, and cannot become
another kind of statement.
"""

from collections.abc import Sequence
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects import mysql, postgresql
from sqlalchemy.engine import Connection
from sqlalchemy.engine.interfaces import ReflectedColumn

from ringfence.connectors.api import ConnectorError
from ringfence.connectors.builtin.sql import settings as names
from ringfence.connectors.builtin.sql.database import Database

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
