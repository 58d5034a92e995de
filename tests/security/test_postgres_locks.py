"""With PostgreSQL as the database: who waits for a lock stops nobody else, and no pattern costs the server."""

import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import psycopg
import pytest

from ringfence.environment import REQUEST_BUSY_SECONDS
from ringfence.fencing.name_patterns import regular_expression
from tests.security.servers import Web, clean_environment, serving
from tests.support.postgres import Postgres, new_postgres
from tests.support.waiting import eventually

TOKEN = "a-token-of-at-least-24-characters"
ADMIN = {"authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with new_postgres() as started:
        yield started


@pytest.fixture(scope="module")
def web(server: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    root = tmp_path_factory.mktemp("locks")
    variables = {"RINGFENCE_DATABASE_URL": server.url, "RINGFENCE_TOKEN": TOKEN}
    command = [sys.executable, "-m", "django", "migrate", "--no-input", "-v", "0"]
    subprocess.run(command, env=clean_environment(root, variables), check=True, timeout=300)
    with serving(root, ["ringfence.cli", "web", "--http", "ADDRESS"], variables) as served:
        yield served


def test_a_lock_that_is_never_released_stops_nobody_who_does_not_need_it(server: Postgres, web: Web) -> None:
    """As a process holds it that is frozen within its transaction."""

    def guess(_: int) -> int:
        return httpx.get(f"{address}/connectors", headers={"authorization": "Bearer wrong"}, timeout=60).status_code

    address = f"http://{web.address}"
    assert guess(0) == 401
    with psycopg.connect(server.url) as holder, ThreadPoolExecutor(100) as threads:
        holder.execute("SELECT * FROM access_throttle FOR UPDATE")
        began = time.monotonic()
        waiting = [threads.submit(guess, number) for number in range(100)]
        for path in ("/health/live", "/health/ready"):
            assert httpx.get(f"{address}{path}", timeout=20).status_code == 200
        assert {each.result(90) for each in waiting} <= {401, 429, 503}
        assert time.monotonic() - began < 60
        assert httpx.get(f"{address}/connectors", headers=ADMIN, timeout=20).status_code == 200
        holder.rollback()
    assert guess(0) == 401


def test_the_reads_of_one_account_leave_threads_to_the_others(server: Postgres, web: Web) -> None:
    """As many as the process has threads, and more, each of which takes seconds."""

    def read(name: str, path: str) -> int:
        return httpx.get(f"http://{web.address}{path}", auth=(name, TOKEN), timeout=90).status_code

    assert read("ann", "/connectors") == 200
    with psycopg.connect(server.url) as holder, ThreadPoolExecutor(200) as threads:
        holder.execute("LOCK TABLE mirror_connector IN ACCESS EXCLUSIVE MODE")
        waiting = [threads.submit(read, "ann", "/connectors") for _ in range(200)]
        eventually(lambda: _count_waiting(server) >= 10, 30, "reads of ann's that wait")
        for _ in range(5):
            began = time.monotonic()
            assert read("bob", "/api/v1/sessions") == 200
            assert time.monotonic() - began < REQUEST_BUSY_SECONDS / 2
        assert _count_waiting(server) <= 32
        holder.rollback()
        assert {each.result(90) for each in waiting} <= {200, 429, 503}


def _count_waiting(server: Postgres) -> int:
    return int(server.query("SELECT count(*) FROM pg_locks WHERE NOT granted"))


def test_a_grants_pattern_costs_the_server_no_more_than_its_length(server: Postgres) -> None:
    pattern = regular_expression("*a" * 60 + "*b")
    began = time.monotonic()
    with psycopg.connect(server.url) as connection:
        names = "SELECT repeat('a', 249) AS name FROM generate_series(1, 1000)"
        found = connection.execute(f"SELECT count(*) FROM ({names}) x WHERE name ~ %s", [pattern]).fetchone()
    assert found == (0,)
    assert time.monotonic() - began < 10


def test_no_write_begins_while_its_audit_entry_cannot_be_written(server: Postgres, web: Web) -> None:
    address = f"http://{web.address}/api/v1/sessions/others"
    before = server.query("SELECT count(*) FROM audit_auditentry")
    assert httpx.delete(address, headers=ADMIN, timeout=30).status_code == 200
    assert int(server.query("SELECT count(*) FROM audit_auditentry")) == int(before) + 1
    server.kill()
    answer = httpx.delete(address, headers=ADMIN, timeout=60)
    assert answer.status_code == 503, "a write that leaves no entry is not begun"
    server.start()
    eventually(lambda: httpx.delete(address, headers=ADMIN, timeout=60).status_code == 200, 60)
    assert int(server.query("SELECT count(*) FROM audit_auditentry")) == int(before) + 2
