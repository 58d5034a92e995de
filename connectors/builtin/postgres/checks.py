"""Asks the server before the connector starts: what is wrong, with the SQL that fixes it, and which schemas and tables
you can choose from, with their sizes, keys and replica identities.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

import psycopg

from ringfence.connectors.api import Choice, ConfigException, ConnectorError, Examination
from ringfence.connectors.builtin.postgres import settings as names
from ringfence.connectors.builtin.postgres import slots
from ringfence.connectors.builtin.postgres.session import Server, Session, captured_tables, one_line, selection_of
from ringfence.connectors.builtin.postgres.settings import CONFIG_DEF, Selection
from ringfence.connectors.sdk.delivery import transaction_boundary
from ringfence.connectors.sdk.diagnosis import Cause, diagnose, summarise
from ringfence.connectors.sdk.names import list_first

Errors = dict[str, list[str]]

_SHOWN: Final = 5
_BARE: Final = """
SELECT n.nspname, c.relname, EXISTS (
    SELECT FROM pg_publication_tables p
    WHERE p.pubname = %s AND p.schemaname = n.nspname AND p.tablename = c.relname)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'r' AND c.relpersistence = 'p' AND (
    c.relreplident = 'n'
    OR c.relreplident = 'd' AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary)
    OR c.relreplident = 'i' AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisreplident))
ORDER BY 1, 2
"""
_KEYLESS: Final = """
SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'r' AND c.relpersistence = 'p' AND NOT EXISTS (
    SELECT FROM pg_index i WHERE i.indrelid = c.oid
    AND CASE WHEN c.relreplident = 'i' THEN i.indisreplident ELSE i.indisprimary END)
ORDER BY 1, 2
"""


def find_errors(config: Mapping[str, str]) -> Errors:
    """Return errors by setting. Empty if the settings themselves are invalid: those errors are reported elsewhere."""
    try:
        settings = CONFIG_DEF.parse(config)
    except ConfigException:
        return {}
    try:
        session = Session(Server(settings, config.get("name", "")))
        try:
            return _Checks(session, settings.string(names.USER), settings.string(names.DATABASE)).run(
                slot=settings.string(names.SLOT),
                publication=settings.string(names.PUBLICATION),
                mode=settings.string(names.AUTOCREATE),
                tables=captured_tables(session, selection_of(settings)),
                snapshot=settings.string(names.SNAPSHOT),
                boundary=transaction_boundary(config),
            )
        finally:
            session.close()
    except ConnectorError as error:
        return {names.HOST: [str(error)]}
    except psycopg.Error as error:
        return {names.HOST: [f"The database server refused a query of the connector: {one_line(error)}."]}


class _Checks:
    """Runs the checks and collects their errors."""

    def __init__(self, session: Session, user: str, database: str) -> None:
        self._session = session
        self._user = user
        self._database = database
        self._errors: Errors = {}

    def run(
        self,
        *,
        slot: str,
        publication: str,
        mode: str,
        tables: list[tuple[str, str]],
        snapshot: str,
        boundary: str,
    ) -> Errors:
        self._server()
        self._user_rights(tables)
        self._slot(slot)
        self._check_publication(publication, mode)
        self._identities(publication, tables)
        if snapshot != names.NO_DATA:
            self._check_snapshot(tables, boundary)
        if not tables:
            self._say(names.TABLES, "The include and exclude lists select no table of the database. Correct them.")
        return self._errors

    def _say(self, setting: str, text: str) -> None:
        self._errors.setdefault(setting, []).append(text)

    def _setting(self, name: str) -> str:
        ((value,),) = self._session.query("SELECT current_setting(%s)", [name])
        return str(value)

    def _server(self) -> None:
        if self._session.connection.info.server_version < 140000:
            self._say(names.HOST, "The server is older than PostgreSQL 14. Upgrade it.")
        if self._setting("wal_level") != "logical":
            self._say(
                names.HOST,
                f"The server runs with wal_level={self._setting('wal_level')}. As a superuser: ALTER SYSTEM SET "
                "wal_level = logical; then restart the server. (Managed servers have a parameter for it, such as "
                "rds.logical_replication=1.)",
            )

    def _user_rights(self, tables: list[tuple[str, str]]) -> None:
        rows = self._session.query(
            "SELECT rolreplication OR rolsuper OR EXISTS (SELECT FROM pg_roles r WHERE r.rolname = 'rds_replication' "
            "AND pg_has_role(current_user, r.oid, 'member')) FROM pg_roles WHERE rolname = current_user"
        )
        user = _quote(self._user)
        if not rows or not rows[0][0]:
            self._say(
                names.USER,
                f"The user {self._user} lacks the REPLICATION attribute. As a superuser: "
                f"ALTER ROLE {user} REPLICATION;",
            )
        closed = [
            (schema, table)
            for schema, table in tables
            if not self._session.query(
                "SELECT has_table_privilege(format('%%I.%%I', %s::text, %s::text), 'SELECT')", [schema, table]
            )[0][0]
        ]
        if closed:
            schema, table = closed[0]
            self._say(
                names.USER,
                f"The user {self._user} may not read {len(closed)} of the tables, including {schema}.{table}. As "
                f"their owner: GRANT USAGE ON SCHEMA {_quote(schema)} TO {user}; GRANT SELECT ON "
                f"{_quote(schema)}.{_quote(table)} TO {user};",
            )

    def _slot(self, name: str) -> None:
        slot = slots.find_slot(self._session, name)
        if slot is not None:
            try:
                slots.check_slot(name, slot, self._database, None)
            except ConnectorError as error:
                self._say(names.SLOT, str(error))
            return
        ((free,),) = self._session.query(
            "SELECT current_setting('max_replication_slots')::int - count(*) FROM pg_replication_slots"
        )
        if free <= 0:
            self._say(
                names.SLOT,
                "All replication slots of the server are in use. Drop an unused one (SELECT slot_name, active FROM "
                "pg_replication_slots), or: ALTER SYSTEM SET max_replication_slots = 20; and restart the server.",
            )

    def _identities(self, publication: str, tables: list[tuple[str, str]]) -> None:
        """Report tables without a replica identity: once published, the server refuses their updates and deletes."""
        captured = set(tables)
        bare = [table for *table, published in self._session.query(_BARE, [publication]) if not published]
        bare = [table for table in bare if tuple(table) in captured]
        if not bare:
            return
        quoted = [f"{_quote(schema)}.{_quote(table)}" for schema, table in bare]
        remedy = " ".join(f"ALTER TABLE {table} REPLICA IDENTITY FULL;" for table in quoted[:_SHOWN])
        self._say(
            names.TABLES,
            f"The server would refuse all updates and deletes of {list_first(quoted, _SHOWN)} once the publication "
            f"{publication} contains {'it' if len(quoted) == 1 else 'them'}: without a primary key there is no replica "
            f"identity. Add a primary key, or as the owner: {remedy} Or exclude the table with {names.TABLES_EXCLUDE}; "
            "or, if its rows are only inserted, create the publication yourself.",
        )

    def _check_snapshot(self, tables: list[tuple[str, str]], boundary: str) -> None:
        ((standby,),) = self._session.query("SELECT pg_is_in_recovery()")
        if standby:
            self._say(
                names.SNAPSHOT,
                "The server is a standby: its snapshots do not show which transactions they contain. Read from the "
                f"primary, or set {names.SNAPSHOT}={names.NO_DATA}.",
            )
        if boundary == "connector":
            return
        captured = set(tables)
        keyless = [
            f"{schema}.{table}" for schema, table in self._session.query(_KEYLESS) if (schema, table) in captured
        ]
        if keyless:
            self._say(
                names.SNAPSHOT,
                f"{len(keyless)} tables, including {keyless[0]}, have no key. Each is read in one Kafka transaction, "
                "so that a restart does not duplicate its rows. Set transaction.boundary=connector, add primary keys, "
                f"or exclude the tables with {names.TABLES_EXCLUDE}.",
            )

    def _check_publication(self, name: str, mode: str) -> None:
        row_list = self._session.query(
            "SELECT pubinsert, pubupdate, pubdelete FROM pg_publication WHERE pubname = %s", [name]
        )
        quoted = _quote(name)
        if row_list:
            if not all(row_list[0]):
                self._say(
                    names.PUBLICATION,
                    f"The publication {name} leaves out inserts, updates or deletes. As its owner: ALTER PUBLICATION "
                    f"{quoted} SET (publish = 'insert, update, delete, truncate');",
                )
            return
        ((superuser, creator),) = self._session.query(
            "SELECT rolsuper, has_database_privilege(current_database(), 'CREATE') FROM pg_roles "
            "WHERE rolname = current_user"
        )
        statement = f"CREATE PUBLICATION {quoted} FOR ALL TABLES;"
        if mode == names.DISABLED:
            self._say(names.PUBLICATION, f"There is no publication {name}. As a superuser: {statement}")
        elif mode == names.ALL_TABLES and not superuser:
            self._say(
                names.PUBLICATION,
                f"There is no publication {name}, and only a superuser can create one for all tables: {statement} Or "
                f"set {names.AUTOCREATE}={names.FILTERED}, if the user owns the tables.",
            )
        elif not creator:
            self._say(
                names.PUBLICATION,
                f"There is no publication {name}, and the user {self._user} may not create one. As a superuser: GRANT "
                f"CREATE ON DATABASE {_quote(self._database)} TO {_quote(self._user)}; or {statement}",
            )


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


MOST: Final = 500
"""The maximum number of tables in the list, which starts with the largest."""

_TABLES: Final = """
SELECT n.nspname, c.relname, c.reltuples::int8, pg_total_relation_size(c.oid), c.relreplident::text,
       (SELECT string_agg(a.attname, ', ' ORDER BY k.place)
        FROM pg_index i CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k(attnum, place)
        JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
        WHERE i.indrelid = c.oid AND i.indisprimary)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'r' AND c.relpersistence = 'p' AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
ORDER BY 4 DESC, 1, 2 LIMIT %s
"""
_SCHEMAS: Final = """
SELECT n.nspname, count(*), sum(pg_total_relation_size(c.oid))::int8
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'r' AND c.relpersistence = 'p' AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
GROUP BY 1 ORDER BY 1
"""
_ROWS: Final = """
SELECT n.nspname, c.relname, CASE WHEN c.reltuples >= 0 THEN c.reltuples ELSE pg_relation_size(c.oid) / 100 END::int8,
       pg_relation_size(c.oid),
       EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid
               AND CASE WHEN c.relreplident = 'i' THEN i.indisreplident ELSE i.indisprimary END)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'r' AND c.relpersistence = 'p'
"""


def list_choices(session: Session) -> Mapping[str, Sequence[Choice]]:
    """Return the choices by setting, for the lists of schemas and tables."""
    schemas = [
        Choice(pattern(schema), f"{count:,} table{'s' if count != 1 else ''}, {_size(size)}")
        for schema, count, size in session.query(_SCHEMAS)
    ]
    tables = [
        Choice(pattern(f"{schema}.{table}"), _describe(rows, size, identity, key))
        for schema, table, rows, size, identity, key in session.query(_TABLES, [MOST])
    ]
    return {
        names.SCHEMAS: schemas,
        names.SCHEMAS_EXCLUDE: schemas,
        names.TABLES: tables,
        names.TABLES_EXCLUDE: tables,
    }


def describe_snapshot(session: Session, selection: Selection) -> Sequence[Choice]:
    """Return the choices for `snapshot.mode`, with what each mode would read now."""
    rows_found = [row for row in session.query(_ROWS) if selection.has_table(row[0], row[1])]
    rows, size = sum(row[2] for row in rows_found), sum(row[3] for row in rows_found)
    keyless = sum(not row[4] for row in rows_found)
    what = f"{len(rows_found):,} table{'s' if len(rows_found) != 1 else ''}, about {rows:,} rows, {_size(size)}"
    if keyless:
        what += f"; {keyless:,} without a key, each read in one transaction"
    return [
        Choice(names.INITIAL, f"first {what}; then changes"),
        Choice(names.INITIAL_ONLY, f"{what}; no changes"),
        Choice(names.WHEN_NEEDED, f"first {what}; then changes; the rows again if changes were lost"),
        Choice(names.NO_DATA, "no rows; only changes from now on"),
    ]


def pattern(name: str) -> str:
    """Return a regular expression for exactly this name. A comma becomes a dot, since it would end the list's item."""
    return name if re.fullmatch(r"[\w.]+", name) else re.escape(name).replace(",", ".")


def _describe(rows: int, size: int, identity: str, key: str | None) -> str:
    text = f"about {rows:,} rows" if rows >= 0 else "rows not counted yet"
    keyed = f"key {key}" if key else "no primary key"
    identities = {"f": ", replica identity FULL", "n": ", no replica identity", "i": ", replica identity by index"}
    return f"{text}, {_size(size)}, {keyed}{identities.get(identity, '')}"


def _size(number: int) -> str:
    for unit, power in (("GB", 30), ("MB", 20)):
        if number >= 1 << power:
            return f"{number / (1 << power):,.1f} {unit}"
    return f"{number >> 10:,} kB"


_REQUIRED: Final = (names.HOST, names.USER, names.DATABASE)
_SETTINGS: Final = {
    Cause.LOGIN: names.USER,
    Cause.PERMISSION: names.USER,
    Cause.DATABASE: names.DATABASE,
    Cause.CERTIFICATE: names.SSL_ROOT,
}
"""The settings to correct; the host for other causes."""


def examine(config: Mapping[str, str]) -> Examination:
    """Return the tables that the connector would read, or what it lacks."""
    if missing := [name for name in _REQUIRED if not config.get(name, "").strip()]:
        return Examination({name: ["This setting is required: fill it in."] for name in missing})
    config = {**config, names.PREFIX: config.get(names.PREFIX, "").strip() or "prefix"}
    try:
        settings = names.CONFIG_DEF.parse(config)
    except ConfigException as error:
        return Examination({names.HOST: [str(error)]})
    session = Session(Server(settings, config.get("name", "")))
    try:
        tables = captured_tables(session, selection_of(settings))
        version = str(session.query("SHOW server_version")[0][0]).split()[0]
    except ConnectorError as error:
        return _describe_failure(error, f"{settings.string(names.HOST)}:{settings.integer(names.PORT)}")
    except psycopg.Error as error:
        return Examination({names.HOST: [f"The database server refused a query of the connector: {one_line(error)}."]})
    finally:
        session.close()
    if errors := find_errors(config):
        return Examination(errors)
    listing = summarise("table", [f"{schema}.{table}" for schema, table in tables])
    return Examination(summary=f"PostgreSQL {version}, {listing}.")


def _describe_failure(error: ConnectorError, where: str) -> Examination:
    cause = error.__cause__
    diagnosis = diagnose(cause, where) if isinstance(cause, Exception) else None
    if not isinstance(cause, Exception) or diagnosis is None:
        return Examination({names.HOST: [str(error)]})
    setting = _SETTINGS.get(diagnosis.cause, names.HOST)
    return Examination(
        {setting: [f"{diagnosis.text} It says: {one_line(cause)}." if _speaks(cause) else diagnosis.text]}
    )


def _speaks(error: BaseException) -> bool:
    """Return whether the message is the server's."""
    return isinstance(error, psycopg.Error)
