"""Servers that drip, or send a bomb: registries, REST APIs, receivers of alerts, token endpoints, all real ones."""

import gzip
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest
from django.test import override_settings
from requests import ReadTimeout, Session, TooManyRedirects

from ringfence.alerts import senders
from ringfence.alerts.senders import URL, Endpoint, NotSent
from ringfence.connectors.api import ConnectorError
from ringfence.connectors.converters.registry.reading import SchemaReader
from ringfence.connectors.sdk import guarded_requests, worker_limits
from ringfence.connectors.sdk.egress import Policy
from ringfence.connectors.sdk.guarded_httpx import restrict_client
from ringfence.connectors.sdk.guarded_requests import restrict_session
from ringfence.connectors.sdk.kafka_settings import oauth_tokens
from ringfence.connectors.sdk.worker_limits import WorkerLimits

Answer = Callable[[BaseHTTPRequestHandler], None]
SHORT = 1.0
PATIENCE = 15.0


@contextmanager
def serving(answer: Answer) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            with suppress(OSError):  # the client is gone, as it should be
                answer(self)

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def drip(handler: BaseHTTPRequestHandler, data: bytes) -> None:
    for byte in data:
        handler.wfile.write(bytes([byte]))
        handler.wfile.flush()
        time.sleep(0.1)


def drip_headers(handler: BaseHTTPRequestHandler) -> None:
    drip(handler, b"HTTP/1.1 200 OK\r\nX-A: " + b"a" * 1000)


def drip_body(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    drip(handler, b"1" * 1000)


def drip_chunks(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    drip(handler, b"1\r\na\r\n" * 200)


def send_bomb(handler: BaseHTTPRequestHandler) -> None:
    body = gzip.compress(b" " * (guarded_requests.MOST_BYTES + 1000))
    handler.send_response(200)
    handler.send_header("Content-Encoding", "gzip")
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def send_much(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    for _ in range(guarded_requests.MOST_BYTES // (1 << 16) + 2):
        handler.wfile.write(b" " * (1 << 16))


DRIPS = [drip_headers, drip_body, drip_chunks]
LARGE = [send_bomb, send_much]


@pytest.mark.parametrize("answer", DRIPS)
def test_a_registry_that_drips_is_given_up(answer: Answer) -> None:
    started = time.monotonic()
    with serving(answer) as url, httpx.Client() as client:
        restrict_client(client, Policy("loopback"), SHORT)
        with pytest.raises(httpx.TimeoutException):
            client.get(url)
    assert time.monotonic() - started < PATIENCE


@pytest.mark.parametrize("answer", LARGE)
def test_a_registry_that_sends_too_much_is_refused(answer: Answer) -> None:
    with serving(answer) as url, httpx.Client() as client:
        restrict_client(client, Policy("loopback"))
        with pytest.raises(ConnectorError, match=r"compresses|larger than 4 MB"):
            client.get(url)


def test_a_clients_limit_begins_again_with_each_request() -> None:
    with serving(lambda handler: drip(handler, b"HTTP/1.1 200 OK\r\n\r\n")) as url, httpx.Client() as client:
        restrict_client(client, Policy("loopback"), PATIENCE)
        assert [client.get(url).status_code for _ in range(2)] == [200, 200]


def read_with_registry(answer: Answer, seconds: float = 5.0) -> str:
    """Return what a page says of a value whose schema comes from there."""
    with serving(answer) as url:
        reader = SchemaReader({"schema.registry.url": url, "http.read.timeout.ms": str(int(seconds * 1000))})
        with pytest.raises(ConnectorError) as caught:
            reader.read(b"\x00\x00\x00\x00\x02" + b"\x02" * 8000 + b"\x00")
    return str(caught.value)


def send_schema(schema: object) -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        body = json.dumps({"schema": schema if isinstance(schema, str) else json.dumps(schema)}).encode()
        handler.send_response(200)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return answer


def test_a_registrys_bombs_become_a_message() -> None:
    recursion = {"type": "record", "name": "N", "fields": [{"name": "n", "type": ["null", "N"]}]}
    assert "more than 100 levels" in read_with_registry(send_schema(recursion))
    deep = '{"type":"array","items":' * 20_000 + '"int"' + "}" * 20_000
    assert "cannot be read" in read_with_registry(send_schema(deep))
    assert "compresses" in read_with_registry(send_bomb)
    assert "larger than 4 MB" in read_with_registry(send_much)
    started = time.monotonic()
    assert "does not respond" in read_with_registry(drip_body, SHORT)
    assert time.monotonic() - started < PATIENCE


@pytest.mark.parametrize("answer", DRIPS)
def test_an_api_that_drips_is_given_up(answer: Answer) -> None:
    started = time.monotonic()
    with serving(answer) as url, Session() as session:
        restrict_session(session, seconds=SHORT)
        with pytest.raises(ReadTimeout):
            session.get(url, timeout=10)
    assert time.monotonic() - started < PATIENCE


@pytest.mark.parametrize("answer", LARGE)
def test_an_api_that_sends_too_much_is_refused(answer: Answer) -> None:
    with serving(answer) as url, Session() as session:
        restrict_session(session)
        with pytest.raises(ConnectorError, match="larger than 64 MB"):
            session.get(url, timeout=10)


def test_an_api_is_read_as_before_and_its_connection_used_again() -> None:
    clients = set()

    def answer(handler: BaseHTTPRequestHandler) -> None:
        clients.add(handler.client_address)
        body = gzip.compress(b'{"a": 1}')
        head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(body)
        handler.close_connection = False
        handler.wfile.write(head + body)

    with serving(answer) as url, Session() as session:
        restrict_session(session)
        assert [session.get(url, timeout=10).json() for _ in range(3)] == [{"a": 1}] * 3
        assert b"".join(session.get(url, timeout=10, stream=True).iter_content(3)) == b'{"a": 1}'
    assert len(clients) == 1


def test_redirects_end() -> None:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(302)
        handler.send_header("Location", "/again")
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    with serving(answer) as url, Session() as session:
        restrict_session(session)
        with pytest.raises(TooManyRedirects):
            session.get(url, timeout=10)


KEY = "a-key-that-nobody-may-see"
RECEIVERS = [kind for kind, channel in senders.CHANNELS.items() if URL in channel.fields]
MESSAGE = {"what": "firing", "summary": "s", "incident": 1}


def tell(kind: str, url: str) -> int:
    with override_settings(ALERTS_LOOPBACK=True):
        return senders.send(Endpoint(kind, f"{url}/T0/{KEY}", KEY), MESSAGE, 1)


@pytest.mark.parametrize("kind", RECEIVERS)
def test_a_receiver_of_alerts_that_drips_is_given_up(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(senders, "_SECONDS", SHORT)
    started = time.monotonic()
    with serving(drip_headers) as url, pytest.raises(NotSent, match="did not answer") as caught:
        tell(kind, url)
    assert time.monotonic() - started < PATIENCE
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("answer", [drip_body, drip_chunks, *LARGE])
def test_what_a_receiver_of_alerts_sends_is_not_read(answer: Answer) -> None:
    started = time.monotonic()
    with serving(answer) as url:
        assert tell("webhook", url) == 200
    assert time.monotonic() - started < PATIENCE


def lead_on(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(307)
    handler.send_header("Location", f"http://{handler.headers['Host']}/elsewhere/{KEY}")
    handler.end_headers()
    assert "elsewhere" not in handler.path, "nobody follows"


@pytest.mark.parametrize("kind", RECEIVERS)
def test_a_receiver_of_alerts_leads_nowhere_else(kind: str) -> None:
    with serving(lead_on) as url, pytest.raises(NotSent, match="answered 307: redirects are not followed") as caught:
        tell(kind, url)
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("answer", [*DRIPS, *LARGE, lead_on])
def test_a_token_endpoint_that_drips_floods_or_leads_on_gives_no_token(
    answer: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oauth_tokens, "_SECONDS", SHORT)
    monkeypatch.setattr(worker_limits, "_current", [WorkerLimits(egress="loopback")])
    started = time.monotonic()
    with serving(answer) as url:
        login = {oauth_tokens.ENDPOINT: f"{url}/token", oauth_tokens.CLIENT_ID: "me", oauth_tokens.CLIENT_SECRET: KEY}
        with pytest.raises(oauth_tokens.NoToken) as caught:
            oauth_tokens.source_of(login).token()
    assert time.monotonic() - started < PATIENCE
    chain, error = "", caught.value
    cause: BaseException | None = error
    while cause is not None:
        chain, cause = chain + str(cause), cause.__cause__ or cause.__context__
    assert KEY not in chain
