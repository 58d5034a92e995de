"""Who waits for SQLite's lock gets it in the short moments in which it is free."""

import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from django.conf import settings
from django.db import OperationalError, connection, transaction

from ringfence.projection.models import Tombstone

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
