"""Redis, the database or the broker is away: tasks that run do not notice, or go on by themselves."""

import os
import re
import signal
import sqlite3
import time
from collections.abc import Callable

import pytest

from ringfence.local.guarded_process import process_exists
from tests.e2e import processes
from tests.e2e.checker import source_offsets
from tests.e2e.flow import OFFSETS, Flow
from tests.e2e.up import Up
from tests.support.exchanged_files import exchange
from tests.support.waiting import eventually

Make = Callable[..., Flow]
REFUSED = re.compile(
    r"Redis does not answer \(\w+\)\. Nothing was changed"
    r"|(No worker reaches|is the leader, and does not reach) Redis \(.+\)\. .*Nothing was sent or changed"
)
"""As web meets it itself, or as the workers have told it by then."""
ANSWERED_SECONDS = 15.0
"""A request waits four seconds for a lock, and the machine may be busy; another process would wait twenty, twice."""


def test_redis_is_killed(platform: Up, flow: Make) -> None:
    one = flow()
    path = f"/connectors/{one.name}"
    with processes.frozen([platform.lock_holder]):  # else it would be there again before anybody looked
        os.kill(platform.pid("redis"), signal.SIGKILL)
        refused = platform.rest.call("PUT", f"{path}/pause")
        assert refused.status_code == 503
        assert REFUSED.search(refused.json()["message"]), refused.text
        assert one.states() == ["RUNNING", "RUNNING"]  # reading needs no Redis
        one.await_progress(200, timeout=40)
    platform.pid("redis")
    platform.rest.settled(202, "PUT", f"{path}/pause")
    one.await_states("PAUSED")
    one.check()
    platform.rest.settled(202, "PUT", f"{path}/resume")
    one.settle()


@pytest.mark.slow
def test_the_database_is_locked_for_a_minute_and_the_projection_catches_up(platform: Up, flow: Make) -> None:
    one = flow()
    path = f"/connectors/{one.name}"
    holder = sqlite3.connect(platform.data / "ringfence.sqlite3", isolation_level=None, timeout=10)
    try:
        holder.execute("BEGIN EXCLUSIVE")
        free_again = time.monotonic() + 60
        asked = time.monotonic()
        refused = platform.rest.call("PUT", f"{path}/pause")  # nothing is done that the audit trail could not tell
        assert time.monotonic() - asked < ANSWERED_SECONDS
        assert refused.status_code == 503
        assert "database is locked" in refused.json()["message"]
        while time.monotonic() < free_again:
            one.await_progress(200, timeout=40)
    finally:
        holder.rollback()
        holder.close()
    platform.rest.settled(202, "PUT", f"{path}/pause")
    one.await_states("PAUSED")
    one.check()
    last = source_offsets(platform.connection, OFFSETS, one.name)[0]
    shown = {"offsets": [{"partition": {"id": 0}, "offset": {"seqno": last}}]}
    eventually(lambda: platform.rest.expect(200, "GET", f"{path}/offsets") == shown, 20, "the offset in the database")
    platform.rest.settled(202, "PUT", f"{path}/resume")
    one.settle()


@pytest.mark.slow
def test_the_workers_are_frozen_in_the_middle_of_a_write(platform: Up, flow: Make) -> None:
    """Whoever sleeps there holds SQLite's lock. Pages are read all the same, and a command is refused in seconds."""
    one = flow()
    holder = sqlite3.connect(platform.data / "ringfence.sqlite3", isolation_level=None, timeout=10)
    try:
        with platform.frozen([platform.pid("worker-1"), platform.pid("worker-2")]):
            holder.execute("BEGIN IMMEDIATE")
            eventually(lambda: "No worker reports" in platform.rest.call("GET", "/ui/").text, 30, "the page says so")
            asked = time.monotonic()
            refused = platform.rest.call("PUT", f"/connectors/{one.name}/pause")
            assert time.monotonic() - asked < ANSWERED_SECONDS
            assert refused.status_code == 503
            message = refused.json()["message"]
            assert "No worker reports" in message
            assert "database is locked" in message
            asked = time.monotonic()
            assert platform.rest.call("GET", f"/ui/connectors/{one.name}").status_code == 200
            assert time.monotonic() - asked < ANSWERED_SECONDS
            holder.rollback()
    finally:
        holder.close()
    one.settle()


def test_the_database_is_gone_and_comes_back(platform: Up, flow: Make) -> None:
    one = flow()
    file = platform.data / "ringfence.sqlite3"
    aside = file.with_suffix(".aside")
    aside.mkdir()
    exchange(file, aside)
    try:
        answer = platform.rest.call("GET", "/connectors")
        assert answer.status_code == 503
        assert "database does not answer" in answer.json()["message"]
        page = platform.rest.call("GET", "/ui/", headers={"Accept": "text/html"}, follow_redirects=True)
        assert page.status_code == 503
        assert "database" in page.text
        one.await_progress(200, timeout=40)
    finally:
        exchange(file, aside)
        aside.rmdir()
    one.settle()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
@pytest.mark.slow
def test_the_broker_goes_and_comes_back(platform: Up, flow: Make, how: signal.Signals) -> None:
    polls, intervals = flow(throughput=1000, interval_ms=0), flow(throughput=1000, tasks=2)
    broker = platform.pid("kafka")
    os.kill(broker, how)
    eventually(lambda: not process_exists(broker), 30, "the end of the broker", pause=0.1)
    for one in (polls, intervals):
        one.await_progress(200, timeout=200)
        one.settle()
