"""A web server on the loopback interface for tests, which answers as a subclass says."""

import ssl
import sys
import threading
from abc import ABC, abstractmethod
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import ClassVar, NamedTuple, Self
from urllib.parse import parse_qs


class Request(NamedTuple):
    """One request. path: with the query."""

    method: str
    path: str
    headers: Message
    body: bytes

    @property
    def authorization(self) -> str:
        return str(self.headers.get("Authorization", ""))

    @property
    def form(self) -> dict[str, list[str]]:
        """The fields of a form that was posted."""
        return parse_qs(self.body.decode())


class Answer(NamedTuple):
    """One response. kind: its content type; "" for none."""

    body: bytes
    kind: str = "application/json"
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """A client may go away. Python 3.11 prints errors with `ast`, which takes no two threads at once."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class LoopbackApi(ABC):
    """Answers each GET and POST as `respond` says, from its creation on. url: with a slash at its end."""

    protocol: ClassVar[str] = "HTTP/1.1"
    """With HTTP/1.0, a connection ends with its answer."""

    def __init__(self, port: int = 0, certificate: Path | None = None) -> None:
        """certificate: a PEM file with key, for HTTPS."""
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = api.protocol

            def do_GET(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                answer = api.respond(Request(self.command, self.path, self.headers, body))
                self.send_response(answer.status)
                if answer.kind:
                    self.send_header("Content-Type", answer.kind)
                self.send_header("Content-Length", str(len(answer.body)))
                for name, value in answer.headers:
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(answer.body)

            def do_POST(self) -> None:
                self.do_GET()

            def log_message(self, *_: object) -> None:
                pass

        self._server = _Server(("127.0.0.1", port), Handler)
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port: int = self._server.server_port
        self.url = f"{'http' if certificate is None else 'https'}://127.0.0.1:{self.port}/"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    @abstractmethod
    def respond(self, request: Request) -> Answer:
        """Answer one request; called on a thread of its own."""

    def close(self) -> None:
        """Answer no more; may be called twice."""
        self._server.shutdown()
        self._server.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
