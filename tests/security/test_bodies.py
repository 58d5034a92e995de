"""Nobody fills the disk or the memory by what they send: bodies and headers are bounded while they are read."""

import asyncio
import contextlib
import socket
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from ringfence.web import http_protocol as protocol
from ringfence.web import request_body as bodies
from tests.security.servers import Web, migrate, serving

TOKEN = "a-token-of-at-least-24-characters"
MIB = 1024 * 1024


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    root = tmp_path_factory.mktemp("bodies")
    migrate(root)
    (root / "tmp").mkdir()
    variables = {"RINGFENCE_TOKEN": TOKEN, "TMPDIR": str(root / "tmp")}
    with serving(root, ["ringfence.cli", "web", "--http", "ADDRESS"], variables) as served:
        yield served


@pytest.fixture(scope="module", autouse=True)
def silence(web: Web) -> Iterator["list[Future[tuple[float, bytes]]]"]:
    """What the server says after how many seconds where nothing comes, and where half a header has come."""

    def await_word(beginning: bytes) -> tuple[float, bytes]:
        began = time.monotonic()
        with socket.create_connection(("127.0.0.1", web.port), timeout=90) as connection:
            connection.sendall(beginning)
            said = connection.recv(100)
        return time.monotonic() - began, said

    with ThreadPoolExecutor(2) as threads:
        yield [threads.submit(await_word, text) for text in (b"", b"GET / HTTP/1.1\r\nHost: localho")]


@pytest.fixture(scope="module", autouse=True)
def idle_connection(web: Web) -> Iterator[Future[bytes]]:
    """What the server says on a connection after an answer, in more seconds than common clients keep idle ones."""

    def await_end() -> bytes:
        with contextlib.closing(HTTPConnection("127.0.0.1", web.port, timeout=30)) as connection:
            connection.request("GET", "/health/live")
            answer = connection.getresponse()
            answer.read()
            assert answer.status == 200
            connection.sock.settimeout(8)
            return connection.sock.recv(1)

    with ThreadPoolExecutor(1) as thread:
        yield thread.submit(await_end)


def send(web: Web, head: str, chunks: Iterator[bytes] | None = None, most_seconds: float = 20) -> tuple[bytes, int]:
    """The answer, and how many bytes the server took before it closed the connection or the chunks were over."""
    sent = 0
    with socket.create_connection(("127.0.0.1", web.port), timeout=most_seconds) as connection:
        connection.sendall(head.replace("\n", "\r\n").encode())
        with contextlib.suppress(ConnectionError):
            for chunk in chunks or ():
                connection.sendall(chunk)
                sent += len(chunk)
        with contextlib.suppress(ConnectionError):
            return connection.recv(4096), sent
    return b"", sent


def chunked(size: int) -> Iterator[bytes]:
    piece = b"x" * 65536
    for _ in range(size // len(piece)):
        yield b"%x\r\n%s\r\n" % (len(piece), piece)


HEAD = "POST /connectors HTTP/1.1\nHost: localhost\nContent-Type: application/json\n"


def test_a_large_body_is_refused_before_a_byte_of_it_is_read(web: Web) -> None:
    answer, _ = send(web, f"{HEAD}Content-Length: 400000000\n\n")
    assert answer.startswith(b"HTTP/1.1 413 ")


def test_a_body_in_chunks_is_counted_while_it_is_read(web: Web) -> None:
    memory = psutil.Process(web.pid).memory_info().rss
    answer, sent = send(web, f"{HEAD}Transfer-Encoding: chunked\n\n", chunked(200 * MIB))
    assert sent < 100 * MIB, "it was read to its end"
    assert not answer or answer.startswith(b"HTTP/1.1 413 ")
    assert psutil.Process(web.pid).memory_info().rss - memory < 32 * MIB
    temporary = [Path(file.path) for file in psutil.Process(web.pid).open_files() if "/tmp/" in file.path]
    assert not [
        file
        for file in temporary
        if file.suffix not in (".log", ".sqlite3", ".sqlite3-wal", ".sqlite3-shm", ".sqlite3-waiting")
    ]


@pytest.mark.parametrize(
    ("size", "token", "status"),
    [
        (bodies.MOST_UNKNOWN, "", 401),
        (bodies.MOST_UNKNOWN + 1, "", 413),
        (bodies.MOST_UNKNOWN + 1, "wrong", 413),
        (bodies.MOST_UNKNOWN + 1, TOKEN, 400),
        (bodies.MOST, TOKEN, 400),
        (bodies.MOST + 1, TOKEN, 413),
    ],
)
def test_the_limit_depends_on_who_sends_it(web: Web, size: int, token: str, status: int) -> None:
    headers = {"authorization": f"Bearer {token}"} if token else {}
    for chunks in (False, True):
        body = b"x" * size  # no JSON: 400 says that a view has seen it
        content = iter([body[: size // 2], body[size // 2 :]]) if chunks else body
        given = {**headers, "content-type": "application/json"}
        answer = httpx.post(f"http://{web.address}/connectors", content=content, headers=given, timeout=30)
        assert (answer.status_code, answer.json()["error_code"]) == (status, status), chunks


@pytest.mark.parametrize("path", ["/connectors", "/ui/login", "/ui/connectors"])
@pytest.mark.parametrize("scheme", ["Bearer", "Basic", ""])
def test_credentials_that_are_too_long_are_refused_before_anybody_looks_at_them(
    web: Web, path: str, scheme: str
) -> None:
    for size, refused in ((bodies.MOST_CREDENTIALS, False), (bodies.MOST_CREDENTIALS + 1, True)):
        value = f"{scheme} ".lstrip().ljust(size, "x")
        assert (web.get(path, Authorization=value).status_code == 431) is refused, size
    halves = [("Authorization", "x" * (bodies.MOST_CREDENTIALS // 2 + 1))] * 2
    assert httpx.get(f"http://{web.address}{path}", headers=halves, timeout=30).status_code == 431


def test_a_login_that_is_too_long_is_refused_before_its_password_is_hashed(web: Web) -> None:
    """Also from somebody who is known."""
    address = f"http://{web.address}/ui/login"
    for headers in ({}, {"authorization": f"Bearer {TOKEN}"}):
        for size, refused in ((bodies.MOST_LOGIN, False), (bodies.MOST_LOGIN + 1, True)):
            body = b"name=admin&secret=".ljust(size, b"x")
            for content in (body, iter([body[: size // 2], body[size // 2 :]])):
                given = {**headers, "content-type": "application/x-www-form-urlencoded"}
                answer = httpx.post(address, content=content, headers=given, timeout=30)
                assert (answer.status_code == 413) is refused, (answer.status_code, size)


def test_headers_without_end_are_refused(web: Web) -> None:
    answer, sent = send(web, "GET / HTTP/1.1\n", (b"X-A: " + b"y" * 8000 + b"\r\n" for _ in range(10_000)))
    assert sent < 8 * MIB
    assert not answer or answer.startswith(b"HTTP/1.1 431 ")


@pytest.mark.parametrize("body", ["", "x" * 1000])
@pytest.mark.parametrize("pieces", [1, 3])
@pytest.mark.parametrize("where", ["one header", "many headers", "the address"])
def test_headers_that_are_too_large_are_answered(web: Web, where: str, pieces: int, body: str) -> None:
    for size, status in ((protocol.HEADER_BYTES - 2000, b"404"), (protocol.HEADER_BYTES + 2000, b"431")):
        headers = {
            "one header": f"X-A: {'y' * size}\n",
            "many headers": "".join(f"X-{number}: {'y' * 900}\n" for number in range(size // 905)),
            "the address": "",
        }[where]
        path = f"/{'y' * size}" if where == "the address" else "/nowhere"
        head = f"POST {path} HTTP/1.1\nHost: localhost\n{headers}Content-Length: {len(body)}\n\n{body}"
        first, rest = (head, "") if pieces == 1 else (head[:20_000], head[20_000:])
        answer, _ = send(web, first, iter([rest.replace("\n", "\r\n").encode()]))
        refused = answer.startswith(b"HTTP/1.1 431 ")
        assert refused is (status == b"431"), (size, answer[:200])
        assert answer.startswith(b"HTTP/1.1 4"), answer[:200]


def test_a_body_that_never_comes_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "SECONDS", 0.1)

    async def receive() -> dict[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError("nothing ever comes")

    async def known() -> bool:
        raise AssertionError("nobody needs to know")

    with pytest.raises(bodies.BodyRejected) as refused:
        asyncio.run(bodies.read([(b"content-length", b"1000")], receive, known))
    assert refused.value.status == 408


def test_headers_that_never_come_hold_nothing_for_long(silence: "list[Future[tuple[float, bytes]]]") -> None:
    """The last one: it was begun with the first."""
    silent, half = [each.result(90) for each in silence]
    assert silent[1] == b""
    assert half[1].startswith(b"HTTP/1.1 408 ")
    assert max(silent[0], half[0]) < protocol.HEADER_SECONDS + 20


def test_an_idle_connection_stays_for_the_next_request(idle_connection: Future[bytes]) -> None:
    with pytest.raises(TimeoutError):
        idle_connection.result(60)
