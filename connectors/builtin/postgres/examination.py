"""Tests the connection to a database server, with all that the connector needs there."""

from collections.abc import Mapping
from typing import Final

import psycopg

from ringfence.connectors.api import ConfigException, ConnectorError, Examination
from ringfence.connectors.builtin.postgres import settings as names
from ringfence.connectors.builtin.postgres.checks import find_errors
from ringfence.connectors.builtin.postgres.session import Server, Session, captured_tables, one_line, selection_of
from ringfence.connectors.sdk.diagnosis import Cause, diagnose, summarise

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
