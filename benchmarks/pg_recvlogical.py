"""The rate at which PostgreSQL's own `pg_recvlogical` receives rows, and writes them to /dev/null."""

import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg

from benchmarks.rest import BenchmarkError
from benchmarks.watch import EVERY_S
from ringfence.local.guarded_process import wait_until
from tests.support.postgres import find_program

SECONDS = 180.0
_POSITIONS = (
    "SELECT (sent_lsn - '0/0')::int8, (pg_current_wal_lsn() - '0/0')::int8 FROM pg_stat_replication "
    "WHERE application_name = 'pg_recvlogical'"
)


def receive_meanwhile(url: str, slot: str, rows: int, fill: Callable[[], None]) -> float:
    """Return the rows per second that are received while `fill` inserts `rows`, from the first step to the last."""
    steps: list[tuple[float, int]] = []
    with _receive(url, slot), psycopg.connect(url, autocommit=True) as database:
        if not wait_until(lambda: database.execute(_POSITIONS).fetchone() is not None, SECONDS):
            raise BenchmarkError("pg_recvlogical did not begin to receive")
        writer = threading.Thread(target=fill)
        writer.start()
        until = time.monotonic() + SECONDS
        while True:
            ((position, end),) = database.execute(_POSITIONS).fetchall()
            if not steps or position > steps[-1][1]:
                steps.append((time.monotonic(), position))
            if position >= end and not writer.is_alive():
                break
            if time.monotonic() > until:
                raise BenchmarkError("pg_recvlogical did not receive everything")
            time.sleep(EVERY_S)
        writer.join()
    (_, start), first, last = steps[0], steps[1], steps[-1]
    share = (last[1] - first[1]) / (last[1] - start)
    return rows * share / (last[0] - first[0])


def receive_backlog(url: str, slot: str, rows: int) -> float:
    """Return the rows per second that are received of `rows` that are there already."""
    with psycopg.connect(url) as database:
        ((end,),) = database.execute("SELECT pg_current_wal_lsn()::text").fetchall()
    began = time.monotonic()
    with _receive(url, slot, "--endpos", str(end)) as receiver:
        if receiver.wait(SECONDS):
            raise BenchmarkError("pg_recvlogical failed")
    return rows / (time.monotonic() - began)


@contextmanager
def _receive(url: str, slot: str, *more: str) -> "Iterator[subprocess.Popen[bytes]]":
    command = [str(find_program("pg_recvlogical")), "-d", url, "-S", slot, "--start", "-f", "/dev/null"]
    command += ["-o", "proto_version=1", "-o", f"publication_names={slot}", "-F", "0", "-s", "1", *more]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as receiver:
        try:
            yield receiver
        finally:
            receiver.terminate()
    with psycopg.connect(url, autocommit=True) as database:
        ended = "SELECT 1 FROM pg_replication_slots WHERE slot_name = %s AND NOT active"
        if not wait_until(lambda: database.execute(ended, [slot]).fetchone() is not None, SECONDS):
            raise BenchmarkError(f"the slot {slot} is still in use")
        database.execute("SELECT pg_drop_replication_slot(%s)", [slot])
