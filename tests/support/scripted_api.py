"""A web server on the loopback interface whose responses a test writes itself, byte for byte."""

import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import NamedTuple, Self


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
    """Answers each GET and POST as `respond` says. requests: the paths with their queries, in order."""

    def __init__(self, port: int = 0) -> None:
        self.requests: list[str] = []
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                api.requests.append(self.path)
                answer = api.respond(self.path, self.headers)
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
        self.url = f"http://127.0.0.1:{self._server.server_port}/"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    @abstractmethod
    def respond(self, path: str, headers: Message) -> Answer:
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


class ScriptedApi(LoopbackApi):
    """`answer` gets the path with the query, and may be replaced at any time."""

    def __init__(self, answer: Callable[[str], Answer]) -> None:
        self.answer = answer
        super().__init__()

    def respond(self, path: str, headers: Message) -> Answer:
        return self.answer(path)
