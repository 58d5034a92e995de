"""Reads a few rows of the tables for a preview, without creating or changing anything at the server."""

from collections.abc import Callable, Sequence
from typing import Final

from psycopg import sql

from ringfence.connectors.api import SourceOffset, SourceRecord
from ringfence.connectors.builtin.postgres.catalog import read_table
from ringfence.connectors.builtin.postgres.pgoutput import Begin, Relation, RelationColumn
from ringfence.connectors.builtin.postgres.records import RecordMaker, SourceTransaction
from ringfence.connectors.builtin.postgres.session import Session
from ringfence.connectors.builtin.postgres.tables import Table

_ROWS: Final = 5
_OID: Final = "SELECT format('%%I.%%I', %s::text, %s::text)::regclass::oid::int8"


def read_sample(
    session: Session,
    tables: Sequence[tuple[str, str]],
    describe: Callable[[Relation], Table],
    maker: RecordMaker,
    offset: SourceOffset,
) -> list[SourceRecord]:
    """Return records of a few rows of each table, as in a snapshot (`op` is "r")."""
    records: list[SourceRecord] = []
    ((lsn, now),) = session.query(
        "SELECT (CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END - '0/0')"
        "::int8, (extract(epoch FROM clock_timestamp()) * 1000000)::int8"
    )
    at = SourceTransaction(Begin(lsn, now, 0), offset, "null", snapshot="true")
    for schema, name in tables:
        ((oid,),) = session.query(_OID, [schema, name])
        columns = [column for column in read_table(session.query, oid).columns if not column.generated]
        table = describe(
            Relation(
                oid,
                schema,
                name,
                "f",
                tuple(RelationColumn(each.name, True, each.oid, each.typmod) for each in columns),
            )
        )
        column_list = sql.SQL(", ").join(sql.Identifier(column.name) for column in columns)
        statement = sql.SQL("COPY (SELECT {} FROM {} LIMIT {}) TO STDOUT").format(
            column_list, sql.Identifier(schema, name), sql.Literal(_ROWS)
        )
        with session.connection.cursor().copy(statement) as copy:
            for texts in copy.rows():
                row = [None if text is None else str(text).encode() for text in texts]
                maker.read(records, table, row, lsn, at)
    return records
