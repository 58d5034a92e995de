"""An empty database for every test of the alerts, and a receiver that tells what it got."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from django.test import override_settings

from tests.support import database


@pytest.fixture(scope="session")
def _tables() -> None:
    database.migrate()


@pytest.fixture
def tables(_tables: None) -> Iterator[None]:
    database.empty()
    yield
    database.empty()


@dataclass
class Receiver:
    """`answers`: the statuses of the next requests, 200 after them. `got`: (headers, body) of each; `paths`: theirs."""

    url: str = ""
    answers: list[int] = field(default_factory=list)
    got: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A real HTTP server on this machine, which the settings allow."""
    known = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            known.got.append(({key.lower(): value for key, value in self.headers.items()}, body))
            known.paths.append(self.path)
            status = known.answers.pop(0) if known.answers else 200
            self.send_response(status)
            if status in (301, 302, 307):
                self.send_header("Location", known.url)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    known.url = f"http://localhost:{server.server_port}/hook/s3cret-path"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    with override_settings(ALERTS_LOOPBACK=True, ALERTS_PRIVATE=False):
        yield known
    server.shutdown()
    server.server_close()
    thread.join(10)
