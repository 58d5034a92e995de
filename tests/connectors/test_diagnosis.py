"""Why a connection fails is said in words, and belongs to the setting that is wrong."""

import socket
import sqlite3
import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from ringfence.connectors.api import Examination, SourceConnector
from ringfence.connectors.builtin.file_stream.connector import FileStreamSourceConnector
from ringfence.connectors.builtin.files.connector import FilesSourceConnector
from ringfence.connectors.builtin.postgres.connector import PostgresSourceConnector
from ringfence.connectors.builtin.spark_table.connector import SparkTableSourceConnector
from ringfence.connectors.builtin.sql.connector import SqlSourceConnector
from ringfence.connectors.builtin.webhook.connector import WebhookSourceConnector
from ringfence.connectors.sdk import worker_limits
from ringfence.connectors.sdk.diagnosis import Cause, diagnose, find_cause, summarise
from ringfence.connectors.sdk.worker_limits import WorkerLimits


def caused(error: Exception) -> Exception:
    """The error, behind one of a client."""
    outer = RuntimeError("the client failed")
    outer.__cause__ = error
    return outer


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (socket.gaierror(-2, "Name or service not known"), Cause.NAME),
        (ConnectionRefusedError(111, "Connection refused"), Cause.REFUSED),
        (TimeoutError("timed out"), Cause.SILENT),
        (ssl.SSLCertVerificationError(1, "self-signed certificate"), Cause.CERTIFICATE),
    ],
)
def test_an_exception_is_said_in_words_also_behind_another(error: Exception, cause: Cause) -> None:
    for each in (error, caused(error)):
        diagnosis = diagnose(each, "db.example.com:5432")
        assert diagnosis is not None
        assert diagnosis.cause is cause
        assert "db.example.com:5432" in diagnosis.text


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        ('FATAL:  password authentication failed for user "ann"', Cause.LOGIN),
        ('FATAL:  no pg_hba.conf entry for host "10.0.0.9", user "ann"', Cause.LOGIN),
        ("(1045, \"Access denied for user 'ann'@'10.0.0.9' (using password: YES)\")", Cause.LOGIN),
        ("(1044, \"Access denied for user 'ann'@'%' to database 'shop'\")", Cause.PERMISSION),
        ("(1049, \"Unknown database 'shop'\")", Cause.DATABASE),
        ('FATAL:  database "shop" does not exist', Cause.DATABASE),
        ("ERROR:  permission denied for table orders", Cause.PERMISSION),
        ("connection to server at 10.0.0.1, port 5432 failed: Connection refused", Cause.REFUSED),
        ("connection timeout expired", Cause.SILENT),
        ("SSL error: certificate verify failed", Cause.CERTIFICATE),
        ("syntax error at or near SELECT", None),
    ],
)
def test_a_servers_message_is_understood(message: str, cause: Cause | None) -> None:
    assert find_cause(message) is cause


@pytest.mark.parametrize(
    ("names", "more", "words"),
    [
        ("", False, "no tables"),
        ("a", False, "1 table: a"),
        ("abcde", False, "5 tables: a, b, c, d, e"),
        ("abcdefgh", False, "8 tables: a, b, c, d, e and 3 more"),
        ("ab" * 600, True, "1,200 or more tables: a, b, a, b, a and 1195 more"),
    ],
)
def test_a_summary_counts_and_names_the_first(names: str, more: bool, words: str) -> None:
    assert summarise("table", [*names], more=more) == words


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    former = worker_limits.current()
    worker_limits.declare(WorkerLimits((str(tmp_path),), egress="loopback"))
    yield tmp_path
    worker_limits.declare(former)


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port that is taken, and where nothing listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


def examine(connector: type[SourceConnector], config: Mapping[str, str]) -> Examination:
    examination = connector().examine(config)
    assert examination is not None
    return examination


@pytest.mark.parametrize(
    ("columns", "proposals"),
    [
        ("id INTEGER PRIMARY KEY, item TEXT", {"mode": "incrementing", "incrementing.column.name": "id"}),
        ("item TEXT, updated_at DATETIME NOT NULL", {"mode": "timestamp", "timestamp.column.name": "updated_at"}),
        (
            "id INTEGER PRIMARY KEY, updated_at DATETIME NOT NULL",
            {
                "mode": "timestamp+incrementing",
                "timestamp.column.name": "updated_at",
                "incrementing.column.name": "id",
            },
        ),
        ("item TEXT, updated_at DATETIME", {}),
    ],
)
def test_a_database_proposes_how_its_rows_are_read(folder: Path, columns: str, proposals: dict[str, str]) -> None:
    with sqlite3.connect(folder / "shop.db") as database:
        database.execute(f"CREATE TABLE orders ({columns})")
    examination = examine(SqlSourceConnector, {"connection.url": f"sqlite:///{folder}/shop.db"})
    assert examination.errors == {}
    assert examination.summary == "SQLite, 1 table: orders."
    assert examination.proposals == proposals


def test_a_database_that_is_not_there_names_its_setting(folder: Path, closed_port: int) -> None:
    where = {"connection.url": f"postgresql://127.0.0.1:{closed_port}/shop", "connection.user": "ann"}
    (text,) = examine(SqlSourceConnector, where).errors["connection.url"]
    assert text.startswith("Nothing listens at the database server: the connection is refused.")
    assert set(examine(SqlSourceConnector, {}).errors) == {"connection.url"}
    (text,) = examine(SqlSourceConnector, {"connection.url": f"sqlite:///{folder}/none.db"}).errors["connection.url"]
    assert "cannot be opened here" in text
    server = {"database.hostname": "127.0.0.1", "database.user": "ann", "database.dbname": "shop"}
    (text,) = examine(PostgresSourceConnector, {**server, "database.port": str(closed_port)}).errors[
        "database.hostname"
    ]
    assert text.startswith(f"Nothing listens at 127.0.0.1:{closed_port}: the connection is refused.")
    unknown = {**server, "database.hostname": "no-such-host.invalid"}
    (text,) = examine(PostgresSourceConnector, unknown).errors["database.hostname"]
    assert text.startswith("The name of no-such-host.invalid:5432 is not known here.")
    assert set(examine(PostgresSourceConnector, {}).errors) == set(server)


def test_files_propose_their_format(folder: Path) -> None:
    for name in ("a.csv", "b.csv.gz", "c.txt"):
        (folder / name).write_text("id\n1\n")
    examination = examine(FilesSourceConnector, {"url": str(folder)})
    assert examination.proposals == {"format": "csv"}
    assert examination.summary.startswith("3 files: ")
    assert set(examine(FilesSourceConnector, {"url": str(folder / "none")}).errors) == {"url"}
    assert examine(FileStreamSourceConnector, {"file": str(folder / "c.txt")}).summary == "5 bytes so far."
    assert set(examine(FileStreamSourceConnector, {"file": str(folder / "none.txt")}).errors) == {"file"}


def test_a_big_table_shows_its_columns_or_why_it_cannot_be_read(folder: Path, closed_port: int) -> None:
    table = folder / "flights"
    for day in (1, 2):
        (table / f"day={day}").mkdir(parents=True)
        rows = pyarrow.table({"id": [1, 2], "origin": ["EWR", "LGA"]})
        pyarrow.parquet.write_table(rows, table / f"day={day}" / "part-0.parquet")
    assert examine(SparkTableSourceConnector, {"url": str(table)}).summary == (
        "Parquet, 2 files, 3 columns: id, origin, day."
    )
    versioned = examine(SparkTableSourceConnector, {"url": str(table), "table.version": "3"})
    assert set(versioned.errors) == {"table.version"}
    (table / "day=1" / "note.txt").write_text("no table")
    (text,) = examine(SparkTableSourceConnector, {"url": str(table)}).errors["url"]
    assert "A table must not contain other files" in text
    assert set(examine(SparkTableSourceConnector, {}).errors) == {"url"}
    (text,) = examine(SparkTableSourceConnector, {"url": str(folder / "none")}).errors["url"]
    assert "is not a folder" in text
    where = {"url": f"jdbc:postgresql://127.0.0.1:{closed_port}/shop", "user": "ann"}
    (text,) = examine(SparkTableSourceConnector, where).errors["url"]
    assert text.startswith("Nothing listens at the database server: the connection is refused.")
    (text,) = examine(SparkTableSourceConnector, {"url": f"jdbc:sqlite:{folder}/shop.db"}).errors["url"]
    assert "Use SqlSource" in text


def test_a_webhook_says_who_may_send_or_what_is_missing() -> None:
    hook = {"signature": "github", "signature.secret": "s3cret", "idempotency.key": "header:X-GitHub-Delivery"}
    ready = examine(WebhookSourceConnector, hook)
    assert ready.errors == {}
    assert ready.summary == ("POST requests, signed by github; each value of header:X-GitHub-Delivery is one record.")
    assert "anybody" in examine(WebhookSourceConnector, {"signature": "none"}).summary
    assert set(examine(WebhookSourceConnector, {}).errors) == {"signature"}
    assert set(examine(WebhookSourceConnector, {"signature": "github"}).errors) == {"signature.secret"}
    former = worker_limits.current()
    worker_limits.declare(WorkerLimits(listen_host="192.0.2.1"))
    try:
        (text,) = examine(WebhookSourceConnector, hook).errors["connector.class"]
    finally:
        worker_limits.declare(former)
    assert "Correct the worker's listen.host" in text
