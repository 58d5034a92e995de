"""Nobody closes the door of a web process: neither by connections that do nothing, nor by event streams, nor by
requests that never end. Probes are answered whatever happens.
"""

import asyncio
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from ringfence.web.asgi_handler import THREADS
from tests.security.servers import Web, clean_environment, migrate, serving

TOKEN = "a-token-of-at-least-24-characters"
MANY = 1050
SERVED_SECONDS = 25.0
"""For a busy machine. The answers themselves are what counts: without room they would be 503."""
Opened = list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]
PROBES = ("/health/live", "/health/ready")
_SETUP = """
import django; django.setup()
from django.contrib.auth.models import User
from ringfence.access.models import Grant
from ringfence.access import tokens
for number in range(2):
    user = User.objects.create_user(f"viewer-{number}")
    Grant.objects.create(user=user, what="viewer", pattern="*")
    print(tokens.create(user, "watching", ["viewer"])[1])
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("doors")
    migrate(folder)
    return folder


@pytest.fixture(scope="module")
def viewers(root: Path) -> list[str]:
    """The tokens of two accounts that may look at everything."""
    made = subprocess.run(
        [sys.executable, "-c", _SETUP], env=clean_environment(root), check=True, timeout=120, capture_output=True
    )
    return made.stdout.decode().split()


@pytest.fixture(scope="module")
def web(root: Path) -> Iterator[Web]:
    with serving(root, ["ringfence.cli", "web", "--http", "ADDRESS"], {"RINGFENCE_TOKEN": TOKEN}) as served:
        yield served


@contextlib.asynccontextmanager
async def held(web: Web, number: int, text: str) -> AsyncIterator[Opened]:
    """That many connections on which `text` was sent, and nothing more."""
    opened: Opened = []
    try:
        for _ in range(number):
            async with asyncio.timeout(30):
                reader, writer = await asyncio.open_connection("127.0.0.1", web.port)
            writer.write(text.replace("\n", "\r\n").encode())
            opened.append((reader, writer))
        yield opened
    finally:
        for _, writer in opened:
            writer.transport.abort()


async def others_are_served(web: Web) -> float:
    """Pages of an administrator and the probes, five times; returns the longest time of one."""
    longest = 0.0
    for _ in range(5):
        for path in (*PROBES, "/ui/connectors", "/connectors", "/metrics"):
            began = time.monotonic()
            async with httpx.AsyncClient(timeout=30) as client:
                headers = {} if path in PROBES else {"authorization": f"Bearer {TOKEN}"}
                answer = await client.get(f"http://{web.address}{path}", headers=headers)
            assert answer.status_code == 200, (path, answer.status_code, answer.text[:300])
            longest = max(longest, time.monotonic() - began)
    return longest


@pytest.fixture(autouse=True)
def open_files() -> Iterator[None]:
    """This process opens more connections than many systems allow at first."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2 * MANY:
        pytest.skip(f"this system allows {hard} open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2 * MANY), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize(
    "text",
    ["", "GET / HTTP/1.1\nHost: localho", "POST /ui/login HTTP/1.1\nHost: localhost\nContent-Length: 5000\n\nname="],
    ids=["nothing", "half a header", "half a body"],
)
def test_connections_that_do_nothing_stop_nobody(web: Web, text: str) -> None:
    async def attack() -> None:
        async with held(web, MANY, text):
            assert await others_are_served(web) < SERVED_SECONDS

    asyncio.run(attack())


def stream(token: str) -> str:
    return f"GET /ui/events HTTP/1.1\nHost: localhost\nAuthorization: Bearer {token}\n\n"


async def statuses(opened: Opened) -> list[int]:
    """What each was answered, 0 where it was closed without a word."""
    found = []
    for reader, _ in opened:
        async with asyncio.timeout(60):
            line = b""
            with contextlib.suppress(ConnectionError):
                line = await reader.readline()
        found.append(int(line.split()[1]) if line else 0)
    return found


def test_event_streams_of_one_account_stop_nobody(web: Web, viewers: list[str]) -> None:
    async def attack() -> None:
        async with held(web, MANY, stream(viewers[0])) as opened:
            assert await others_are_served(web) < SERVED_SECONDS
            open_now = (await statuses(opened)).count(200)
            assert 0 < open_now <= 10
            async with held(web, 1, stream(viewers[1])) as other:
                assert await statuses(other) == [200]
        for _ in range(300):  # the places are free when the readers are gone
            async with held(web, 1, stream(viewers[0])) as again:
                if await statuses(again) == [200]:
                    return
            await asyncio.sleep(0.1)
        raise AssertionError("the places stayed taken")

    asyncio.run(attack())


def test_requests_that_wait_in_every_thread_stop_no_probe(web: Web) -> None:
    """`POST /ui/login` without a database lock would be quick: here each one waits for a writer that holds it."""
    import sqlite3

    request = f"POST /ui/login HTTP/1.1\nHost: localhost\nAuthorization: Bearer {'x' * 40}\nContent-Length: 0\n\n"

    async def attack(database: sqlite3.Connection) -> None:
        database.execute("BEGIN EXCLUSIVE")
        try:
            async with held(web, THREADS + 20, request.replace("POST /ui/login", "GET /connectors")):
                for _ in range(3):
                    began = time.monotonic()
                    async with httpx.AsyncClient(timeout=10) as client:
                        answer = await client.get(f"http://{web.address}/health/live")
                    assert answer.status_code == 200
                    assert time.monotonic() - began < 3
        finally:
            database.rollback()

    database = sqlite3.connect(os.path.join(_root_of(web), "web.sqlite3"), isolation_level=None)
    with contextlib.closing(database):
        asyncio.run(attack(database))


def _root_of(web: Web) -> str:
    return os.readlink(f"/proc/{web.pid}/cwd")
