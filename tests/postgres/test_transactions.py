"""Transactions of the database that are huge, prepared, or have subtransactions, while the task is killed.

A proxy that holds the rest back meets the task in the middle of its work, however fast the machine is.
"""

import contextlib
import itertools
import json
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.postgres.stand import Stand, write_position
from tests.support.broker import Broker
from tests.support.postgres import LOGICAL, Postgres, new_postgres
from tests.support.waiting import eventually

_CHUNK = 1 << 16


class LimitedProxy:
    """Listens on `port` of this machine."""

    def __init__(self, upstream: int) -> None:
        self._upstream = upstream
        self.limit: int | None = None
        """Bytes of the server that each new connection gets. None: all."""
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        threading.Thread(target=self._accept, name="limited proxy", daemon=True).start()

    def close(self) -> None:
        """Take no more connections. Those that are open end with their clients."""
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return  # closed
            try:
                server = socket.create_connection(("127.0.0.1", self._upstream), timeout=30)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            for work, limits in ((self._ask, ()), (self._answer, (self.limit,))):
                arguments = client, server, *limits
                threading.Thread(target=work, args=arguments, name="limited proxy", daemon=True).start()

    @staticmethod
    def _ask(client: socket.socket, server: socket.socket) -> None:
        """Pass everything to the server. The client's end breaks both connections, held back or not."""
        with contextlib.suppress(OSError):
            while data := client.recv(_CHUNK):
                server.sendall(data)
        for end in (client, server):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    @staticmethod
    def _answer(client: socket.socket, server: socket.socket, limit: int | None) -> None:
        with contextlib.suppress(OSError):
            while limit is None or limit > 0:
                data = server.recv(_CHUNK if limit is None else min(_CHUNK, limit))
                if not data:
                    client.shutdown(socket.SHUT_RDWR)
                    return
                client.sendall(data)
                if limit is not None:
                    limit -= len(data)


@contextlib.contextmanager
def limited_proxy(upstream: int) -> Iterator[LimitedProxy]:
    """In front of a port of this machine."""
    proxy = LimitedProxy(upstream)
    try:
        yield proxy
    finally:
        proxy.close()


logger = logging.getLogger(__name__)

ROWS = 5_000_000
_MEMORY = 1_000_000_000
_ROW_BYTES = 260
"""Of a row of `_rows` in the replication stream, about."""
_TABLE = "CREATE TABLE t (id bigint PRIMARY KEY, v text)"


def begin(stand: Stand) -> None:
    with stand.connect() as connection:
        connection.execute(_TABLE.encode())
    stand.create_topics("public.t")
    stand.start()
    eventually(lambda: stand.offset() is not None, 60, stand.log, pause=0.2)


def await_end(stand: Stand, seconds: float) -> None:
    """Until everything that was committed up to now is in Kafka."""
    with stand.connect() as connection:
        before = write_position(connection)
        connection.execute("INSERT INTO t VALUES (-1)")
    eventually(lambda: int((stand.offset() or {})["lsn_commit"]) > before, seconds, stand.log, pause=0.5)


def read_within(stand: Stand) -> int:
    """How many changes of the transaction that is split are committed."""
    return int((stand.offset() or {}).get("seq", 0))


def read_ids(stand: Stand) -> Iterator[int]:
    """The keys of all records, in their order."""
    topic = f"{stand.prefix}.public.t"
    reader = Consumer({"bootstrap.servers": stand.stage.connection.bootstrap, "group.id": "none"})
    try:
        place = TopicPartition(topic, 0, 0)
        reader.assign([place])
        _, end = reader.get_watermark_offsets(place, 30)
        while reader.position([place])[0].offset < end:
            for message in reader.consume(10_000, 10):
                assert message.error() is None, message.error()
                yield int(json.loads(message.key() or b"")["id"])
    finally:
        reader.close()


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_transaction_of_five_million_rows(stand: Callable[..., Stand]) -> None:
    """With a SIGKILL within it: the next attempt goes on behind what is committed, in as little memory."""
    made = stand(producer_override_compression_type="lz4", max_batch_size="10000")
    begin(made)
    with made.connect() as connection:
        connection.execute(f"INSERT INTO t SELECT g, 'row ' || g FROM generate_series(1, {ROWS}) g".encode())
    started = time.monotonic()
    eventually(lambda: read_within(made) > ROWS // 5, 900, made.log, pause=0.5)
    first, killed = made.peak_memory(), time.monotonic()
    made.kill()
    made.start()
    await_end(made, 1200)
    peak = max(first, made.peak_memory())
    logger.info(
        "%.0f s until the kill, %.0f s behind it, %d MB", killed - started, time.monotonic() - killed, peak >> 20
    )
    assert peak < _MEMORY
    for expected, found in itertools.zip_longest(itertools.chain(range(1, ROWS + 1), [-1]), read_ids(made)):
        assert found == expected


@pytest.mark.thorough
def test_subtransactions_of_a_split_transaction_under_sigkill(stand: Callable[..., Stand]) -> None:
    """Rows of savepoints that were rolled back never come, and the others once: in parts, and larger than memory."""
    made = stand(source_transaction_max_rows="2000", max_batch_size="500")
    with limited_proxy(int(made.config["database.port"])) as proxy:
        made.config["database.port"] = str(proxy.port)
        begin(made)
        made.kill()
        expected = insert_with_savepoints(made)
        for reached in (2000, 12_000, 25_000):
            proxy.limit = (reached + 6000) * _ROW_BYTES  # so that no attempt gets to the end
            made.start()
            eventually(lambda reached=reached: read_within(made) >= reached, 90, made.log, pause=0.05)  # type: ignore[misc]
            made.kill()
            assert read_within(made) >= reached  # still within it
        proxy.limit = None
        made.start()
        await_end(made, 90)
        made.end()
    assert list(read_ids(made)) == [*expected, -1]


def insert_with_savepoints(stand: Stand) -> list[int]:
    """One transaction, parts of which are rolled back; the ids of the other rows, about 40,000."""
    expected = []
    with stand.connect() as connection, connection.transaction():
        for number in range(300):
            connection.execute("SAVEPOINT a")
            connection.execute(_rows(number * 1000))
            connection.execute("SAVEPOINT b")
            connection.execute(_rows(number * 1000 + 500))
            if number % 3 == 0:
                connection.execute("ROLLBACK TO b")
            if number % 5 == 0:
                connection.execute("ROLLBACK TO a")
                continue
            firsts = [number * 1000, *([number * 1000 + 500] if number % 3 else [])]
            expected += [first + row for first in firsts for row in range(100)]
    return expected


def _rows(first: int) -> bytes:
    return f"INSERT INTO t SELECT g, repeat('x', 200) FROM generate_series({first}, {first + 99}) g".encode()


@pytest.fixture
def alone(broker: Broker, unique: Callable[[str], str], tmp_path: Path) -> Iterator[tuple[Postgres, Stand]]:
    """A connector with a server of its own."""
    with new_postgres(LOGICAL) as server:
        made = Stand(server, broker.bootstrap, unique("pg"), tmp_path)
        yield server, made
        made.close()


@pytest.mark.slow
def test_prepared_transactions_over_restarts_of_task_and_server(alone: tuple[Postgres, Stand]) -> None:
    """Others commit in between, whose position is confirmed: rows of a prepared one come when it is committed."""
    server, made = alone
    begin(made)
    expected = []
    for number, (ending, task, whole_server) in enumerate(
        itertools.product(("COMMIT", "ROLLBACK"), (False, True), (False, True))
    ):
        with made.connect() as connection:
            connection.execute(
                f"BEGIN; {_rows(number * 1000).decode()}; SAVEPOINT a; {_rows(number * 1000 + 500).decode()}; "
                f"ROLLBACK TO a; PREPARE TRANSACTION 'p{number}'".encode()
            )
            connection.execute(f"INSERT INTO t VALUES ({number * 1000 + 900})".encode())
            made.await_position(write_position(connection) - 1)
        if task:
            made.kill()
        if whole_server:
            server.kill()
            server.start()
        with made.connect() as connection:
            connection.execute(f"{ending} PREPARED 'p{number}'".encode())
        if task:
            made.start()
        expected += [number * 1000 + 900, *(range(number * 1000, number * 1000 + 100) if ending == "COMMIT" else ())]
    await_end(made, 90)
    made.end()
    assert list(read_ids(made)) == [*expected, -1]
