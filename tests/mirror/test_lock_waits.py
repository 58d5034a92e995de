"""Who waits for SQLite's lock gets it in the short moments in which it is free."""

import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.conf import settings
from django.db import OperationalError, connection, transaction

from ringfence.lock_waits import WaitingRoom, give_way
from ringfence.projection.models import Tombstone
from tests.support.waiting import eventually

pytestmark = pytest.mark.skipif(
    "sqlite" not in str(settings.DATABASES["default"]["ENGINE"]), reason="PostgreSQL has a queue for each lock"
)

HOLDER = """
import sqlite3, sys, time
database = sqlite3.connect(sys.argv[1], timeout=60, isolation_level=None)
while True:
    database.execute("BEGIN IMMEDIATE")
    print(flush=True)
    time.sleep(0.06)
    database.execute("COMMIT")
    time.sleep(0.006)
"""

# The same as a process of ours does, slower by its pauses: so it depends on being let in.
WAITER = """
import fcntl, sqlite3, sys, time
database = sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None)
room = open(sys.argv[2], "a")
for line in sys.stdin:
    fcntl.flock(room, fcntl.LOCK_SH)
    print(flush=True)
    while True:
        try:
            database.execute("BEGIN IMMEDIATE")
            break
        except sqlite3.OperationalError:
            time.sleep(0.03)
    database.execute("COMMIT")
    fcntl.flock(room, fcntl.LOCK_UN)
    print(flush=True)
"""


@pytest.fixture
def _busy() -> Iterator[None]:
    """Another process makes one long transaction after another, as the projection does while it has much to write."""
    path = str(settings.DATABASES["default"]["NAME"])
    with subprocess.Popen([sys.executable, "-c", HOLDER, path], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        yield
        holder.kill()


@pytest.mark.usefixtures("_busy")
def test_a_write_fits_between_the_transactions_of_another_process() -> None:
    took = []
    for number in range(60):
        began = time.monotonic()
        if number % 2:
            Tombstone.objects.create(connector=f"c{number}", config_offset=number, time_ms=0)
        else:
            with transaction.atomic():
                Tombstone.objects.filter(connector=f"c{number - 1}").update(time_ms=1)
        took.append(time.monotonic() - began)
    print(sorted(took)[-5:])
    assert max(took) < 1.5


def test_what_has_much_to_write_leaves_those_who_wait_the_first_turn() -> None:
    """It counts transactions, not seconds: of those that begin while somebody waits, there is at most one."""
    path = str(settings.DATABASES["default"]["NAME"])
    begun, over = [0], threading.Event()

    def write_much() -> None:
        while not over.is_set():
            give_way(connection)
            with transaction.atomic():
                begun[0] += 1
                Tombstone.objects.filter(connector="much").update(time_ms=begun[0])
                time.sleep(0.02)
        connection.close()

    waited = []
    with (
        ThreadPoolExecutor(1) as pool,
        subprocess.Popen(
            [sys.executable, "-c", WAITER, path, f"{path}-waiting"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as waiter,
    ):
        assert waiter.stdin is not None
        assert waiter.stdout is not None
        much = pool.submit(write_much)
        eventually(lambda: begun[0] > 2, 20)
        for _ in range(20):
            waiter.stdin.write(b"\n")
            waiter.stdin.flush()
            waiter.stdout.readline()  # it waits
            before = begun[0]
            waiter.stdout.readline()  # it has written
            waited.append(begun[0] - before)
        over.set()
        waiter.kill()
        much.result(20)
    assert sum(waited) <= len(waited), waited


def test_who_only_seems_to_wait_holds_nobody() -> None:
    """As a process that is frozen while it waits."""
    path = str(settings.DATABASES["default"]["NAME"])
    frozen = WaitingRoom(f"{path}-waiting")
    with frozen.stay():
        began = time.monotonic()
        give_way(connection)
        assert 0.1 <= time.monotonic() - began < 5
    began = time.monotonic()
    assert WaitingRoom(f"{path}-waiting").is_empty()
    assert WaitingRoom("/nowhere/at/all").is_empty()


def test_a_lock_that_is_not_released_is_waited_for_as_long_as_the_setting_says() -> None:
    holder = sqlite3.connect(str(settings.DATABASES["default"]["NAME"]), isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    options = connection.settings_dict["OPTIONS"]
    before, options["timeout"] = options["timeout"], 0.3
    try:
        began = time.monotonic()
        with pytest.raises(OperationalError, match="locked"):
            Tombstone.objects.create(connector="late", config_offset=1, time_ms=0)
        assert 0.3 <= time.monotonic() - began < 5
    finally:
        options["timeout"] = before
        holder.close()
    Tombstone.objects.create(connector="late", config_offset=1, time_ms=0)


def test_a_connection_that_is_opened_again_has_one_way_to_wait() -> None:
    for _ in range(3):
        connection.close()
        Tombstone.objects.count()
    assert len(connection.execute_wrappers) == 1
