"""A workload of versioned rows in transactions of many sizes, and the check that each change arrived once, in order."""

import itertools
import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import psycopg

from tests.postgres.stand import Seen, Stand, write_position

TABLE = "public.accounts"
_ROWS = 4000
_SIZES = (1, 1, 3, 40)


def create(stand: Stand, rows: int = _ROWS) -> None:
    with stand.connect() as connection:
        connection.execute(
            "CREATE TABLE accounts (id bigint PRIMARY KEY, v integer NOT NULL, txt text, big text);"
            "ALTER TABLE accounts ALTER COLUMN big SET STORAGE EXTERNAL;"
            "INSERT INTO accounts SELECT g, 0, 'x', repeat('y', CASE WHEN g % 100 = 0 THEN 9000 ELSE 3 END) "
            f"FROM generate_series(1, {rows}) g"
        )
    stand.create_topics(TABLE)


def write_last(stand: Stand, text: str = "end") -> int:
    """Insert one more row. Returns a position that is reached once it and all before it are committed in Kafka."""
    with stand.connect() as connection:
        position = write_position(connection)
        connection.execute("INSERT INTO accounts VALUES (9000000, 0, %s, null)", [text])
    return position + 1


class Workload:
    """Two writers; each has its own rows, so that they never wait for each other. Some transactions are rolled back."""

    def __init__(self, stand: Stand, seed: int, pause: float = 0.002, *, rows: int = _ROWS, moves: float = 0.0) -> None:
        """moves: the share of changes that give a row another key."""
        self._stop = threading.Event()
        self._pause = pause
        self._rows = rows
        self._moves = moves
        self._threads = [threading.Thread(target=self._write, args=(stand, seed, n)) for n in (0, 1)]
        for thread in self._threads:
            thread.start()

    def _write(self, stand: Stand, seed: int, n: int) -> None:
        choice, ids = random.Random(seed * 100 + n), itertools.count(1_000_000 * (n + 1) + 1)
        while not self._stop.is_set():
            # A server that restarts: whether the last transaction was made, the table tells in the end.
            with suppress(psycopg.OperationalError), psycopg.connect(stand.dsn, autocommit=True) as connection:
                while not self._stop.is_set():
                    with connection.transaction():
                        self._change(connection, choice, ids, n)
                        if choice.random() < 0.05:
                            raise psycopg.Rollback
                    time.sleep(self._pause)
            time.sleep(self._pause)

    def _change(self, connection: "psycopg.Connection[Any]", choice: random.Random, ids: Iterator[int], n: int) -> None:
        for _ in range(choice.choice(_SIZES)):
            row, what = choice.randint(0, self._rows // 2 - 1) * 2 + n + 1, choice.random()
            other = choice.randint(0, self._rows // 2 - 1) * 2 + n + 1
            if choice.random() < self._moves and other != row:
                connection.execute("DELETE FROM accounts WHERE id = %s", [other])
                connection.execute("UPDATE accounts SET id = %s WHERE id = %s", [other, row])
            elif what < 0.7:
                connection.execute("UPDATE accounts SET v = v + 1 WHERE id = %s", [row])
            elif what < 0.85:
                connection.execute("INSERT INTO accounts VALUES (%s, 0, 'new', 'z')", [next(ids)])
            else:
                connection.execute("DELETE FROM accounts WHERE id = %s", [row])

    def end(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)


def find_wrong(records: Sequence[Seen], rows: dict[int, int], *, preloaded: bool) -> list[tuple[Any, ...]]:  # noqa: C901 - a rule after the other
    """What is not as it should be: a version missing, twice or out of order; a transaction in parts; a wrong end.

    preloaded: the stream began after rows 1 to `_ROWS` were written, with version 0; rows are only read again then.
    """
    state = dict.fromkeys(range(1, _ROWS + 1), 0) if preloaded else {}
    wrong: list[tuple[Any, ...]] = []
    places: dict[int, int] = {}
    gone: set[int] = set()
    last = None
    for seen in records:
        if seen.value is None:
            continue
        key, op, after, xid = seen.key["id"], seen.value["op"], seen.value["after"], seen.value["source"]["txId"]
        if xid is not None and xid != last:
            if xid in places:
                wrong.append(("transaction again", xid))
            places[xid], last = seen.transaction, xid
        elif xid is not None and places[xid] != seen.transaction:
            wrong.append(("transaction in parts", xid))
        known = state.get(key)
        if op == "d":
            gone.add(key)
            if state.pop(key, None) is None:
                wrong.append(("deleted twice", key))
        elif op == "r" and preloaded:
            if key in gone or (known is not None and after["v"] < known):
                wrong.append(("read as it was before", key, known, after["v"]))
            state[key] = after["v"]
        elif op in "cr":
            if known is not None:
                wrong.append(("created twice", key, op))
            state[key] = after["v"]
        else:
            if known is None or after["v"] != known + 1:
                wrong.append(("version", key, known, after["v"]))
            state[key] = after["v"]
    if state != rows:
        wrong.append(("final state", len(set(state.items()) ^ set(rows.items()))))
    return wrong


def rows_of(stand: Stand) -> dict[int, int]:
    with stand.connect() as connection:
        return dict(connection.execute("SELECT id, v FROM accounts").fetchall())
