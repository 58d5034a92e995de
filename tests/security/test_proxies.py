"""Behind the proxies that docs/deployment.md recommends, with its files as they are: nobody claims an address, splits a
request, or reaches another path than the proxy sees; events come at once, large bodies as far as they are read.
"""

import contextlib
import re
import socket
import ssl
import struct
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from ringfence.local.ports import free_port
from ringfence.web import request_body
from tests.e2e.machine import watched
from tests.security.servers import migrate, serving
from tests.support.reverse_proxies import HOST, Site, running_proxy
from tests.support.waiting import eventually

TOKEN = "a-token-of-at-least-24-characters"
PROXY = {"RINGFENCE_BEHIND_PROXY": "1", "RINGFENCE_SECURE_COOKIES": "1", "RINGFENCE_ALLOWED_HOSTS": f"{HOST},localhost"}


@pytest.fixture(scope="module", params=["nginx", "haproxy", "envoy"])
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    kind = str(request.param)
    folder = tmp_path_factory.mktemp(kind)
    web = free_port()
    migrate(folder)
    variables = {"RINGFENCE_TOKEN": TOKEN, **PROXY}
    with (
        serving(folder, ["ringfence.cli", "web", "--http", "ADDRESS"], variables, web),
        running_proxy(kind, folder, [web]) as ready,
    ):
        yield ready


AUTHORISED = f"Host: {HOST}\nAuthorization: Bearer {TOKEN}\nConnection: close\n"


def test_pages_and_api_come_through(site: Site) -> None:
    with site.client(authorization=f"Bearer {TOKEN}") as client:
        assert client.get("/ui/connectors").status_code == 200
        assert client.get("/connectors").json() == []
        assert "strict-transport-security" in client.get("/ui/connectors").headers


@pytest.mark.parametrize(
    "path",
    [
        "/hooks/../connectors", "/hooks/%2e%2e/connectors", "/hooks/..%2fconnectors", "/hooks/x/..;/connectors",
        "/hooks//connectors", "//connectors", "/./connectors", "/connectors%00", "/connectors%2f",
        "/hooks/x/../../ui/connectors", "/hooks\\..\\connectors", "/ui/../hooks/x", "/%2e%2e/hooks/x", "//hooks/x",
        "/hooks%2fx", "/HOOKS/x", "/hooks/x%0d%0aX-A:%20b", "/hooks/%2e%2e%2f%2e%2e%2fetc/passwd",
    ],
)  # fmt: skip
def test_a_path_leads_nowhere_that_it_does_not_name(site: Site, path: str) -> None:
    """Even with a token that may do everything: none of these is the list of connectors, and none a page."""
    for method in ("GET", "POST"):
        answer = site.raw(f"{method} {path} HTTP/1.1\n{AUTHORISED}Content-Length: 0\n\n")
        status = int(answer.split()[1])
        assert status in (301, 302, 400, 404, 405, 503), answer[:300]
        assert b"\r\nX-A:" not in answer


@pytest.mark.parametrize(
    "framing",
    [
        "Content-Length: 6\nTransfer-Encoding: chunked\n\n0\n\nG",
        "Transfer-Encoding: chunked\nContent-Length: 6\n\n0\n\nG",
        "Content-Length: 5\nContent-Length: 6\n\nabcdef",
        "Content-Length: 5, 6\n\nabcdef",
        "Transfer-Encoding: xchunked\n\n0\n\n",
        "Transfer-Encoding: chunked\nTransfer-Encoding: identity\n\n0\n\n",
        "Transfer-Encoding : chunked\n\n0\n\n",
        "Transfer-Encoding:\x0bchunked\n\n0\n\n",
        " Transfer-Encoding: chunked\n\n0\n\n",
        "Content-Length: +5\n\nabcde",
        "Content-Length: 0x5\n\nabcde",
        "Content_Length: 5\n\n",
        "Transfer-Encoding: chunked\n\n5;a=\x0ab\nabcde\n0\n\n",
    ],
)
def test_no_request_hides_in_another(site: Site, framing: str) -> None:
    hidden = f"GET /connectors HTTP/1.1\n{AUTHORISED}\n"
    answer = site.raw(f"POST /ui/login HTTP/1.1\nHost: {HOST}\n{framing}{hidden}")
    statuses = [int(each) for each in re.findall(rb"HTTP/1\.1 (\d{3})", answer)]
    shows_list = b"\r\n\r\n[]" in answer
    # Behind a complete request, the hidden one is a request of its own to both. Behind a refused one, it is nothing.
    assert statuses[0] >= 400 or len(statuses) == 1 or framing.startswith(("Content_", "Transfer-Encoding: chunked"))
    assert not shows_list or statuses[0] not in (400, 413, 501)


CLAIMS = ["X-Forwarded-For", "X_Forwarded_For", "x-forwarded-for", "X-Real-IP", "Forwarded", "X-Client-IP"]


def test_nobody_claims_an_address(site: Site) -> None:
    """Wrong tokens are counted for the address: with a claim that counts, nobody would ever be delayed."""
    statuses = []
    with site.client() as client:
        for number in range(60):
            claims = [(name, f"10.1.2.{number}") for name in CLAIMS] + [("X-Forwarded-For", f"10.1.3.{number}")]
            headers = [("authorization", "Bearer wrong"), *claims]
            statuses.append(client.get("/connectors", headers=headers).status_code)
    assert set(statuses) == {401, 429}, statuses
    with site.client(authorization=f"Bearer {TOKEN}") as client:
        entries = client.get("/api/v1/sessions").json()
        assert "10.1." not in str(entries)


def test_events_come_at_once(site: Site) -> None:
    began = time.monotonic()
    with site.client(authorization=f"Bearer {TOKEN}") as client, client.stream("GET", "/ui/events") as answer:
        assert answer.status_code == 200
        text = ""
        for part in answer.iter_text():
            text += part
            if text.count("event: beat") >= 2:
                break
    assert "event: hello" in text
    assert time.monotonic() - began < 30


def test_bodies_come_through_as_far_as_they_are_read(site: Site) -> None:
    with site.client(**{"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}) as client:
        assert client.post("/connectors", content=b"x" * request_body.MOST).status_code == 400
        for size in (request_body.MOST + 1, 2 * request_body.MOST):
            assert client.post("/connectors", content=b"x" * size).status_code == 413
        parts = iter([b"x" * 65536] * (request_body.MOST // 65536 + 1))
        with contextlib.suppress(httpx.WriteError, httpx.ReadError):  # cut while it is sent
            assert client.post("/connectors", content=parts).status_code == 413


def frame(kind: int, flags: int, stream: int, content: bytes = b"") -> bytes:
    """A frame of HTTP/2 (RFC 9113, section 4.1)."""
    return struct.pack(">I", len(content))[1:] + struct.pack(">BBI", kind, flags, stream) + content


def test_streams_that_are_reset_at_once_do_not_keep_others_out(site: Site) -> None:
    """HTTP/2's "rapid reset": requests that cost their sender nothing, and never count as concurrent."""
    fields = {b":method": b"GET", b":scheme": b"https", b":authority": HOST.encode(), b":path": b"/ui/login"}
    headers = b"".join(b"\0" + bytes([len(one)]) + one + bytes([len(two)]) + two for one, two in fields.items())
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    over, sent = threading.Event(), []

    def attack() -> None:
        while not over.is_set():
            with (
                contextlib.suppress(OSError),  # the proxy may end the connection
                socket.create_connection(("127.0.0.1", site.port), timeout=10) as plain,
                context.wrap_socket(plain, server_hostname=HOST) as connection,
            ):
                assert connection.selected_alpn_protocol() == "h2"
                connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0))
                for number in range(1, 1001, 2):
                    connection.sendall(frame(1, 5, number, headers) + frame(3, 0, number, struct.pack(">I", 8)))
                    sent.append(number)

    with ThreadPoolExecutor(2) as pool:
        attacks = [pool.submit(attack) for _ in range(2)]
        try:
            eventually(lambda: len(sent) > 1000, 30, "the attack is under way", pause=0.05)
            slowest = 0.0
            with site.client(address="127.0.0.2", authorization=f"Bearer {TOKEN}") as client, watched() as promised:
                for _ in range(10):
                    began = time.monotonic()
                    assert client.get("/connectors").json() == []
                    slowest = max(slowest, time.monotonic() - began)
            assert slowest < promised(5)
        finally:
            over.set()
        for each in attacks:
            each.result(60)
    print(f"{len(sent)} streams were reset")


def test_a_header_that_never_ends_is_not_waited_for(site: Site) -> None:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    began = time.monotonic()
    with (
        socket.create_connection(("127.0.0.1", site.port), timeout=60) as plain,
        context.wrap_socket(plain, server_hostname=HOST) as connection,
    ):
        connection.sendall(b"GET / HTTP/1.1\r\nHost: ring")
        with contextlib.suppress(ConnectionError):
            connection.recv(100)
    assert time.monotonic() - began < 40
