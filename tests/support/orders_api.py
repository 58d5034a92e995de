"""A REST API on the loopback interface: rows with a cursor, in pages, and with troubles where a test wants them."""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlparse


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """A client may go away. Python 3.11 prints errors with `ast`, which takes no two threads at once."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class OrdersApi:
    """GET /orders?since=…&offset=…&limit=…: rows from the cursor on, inclusive, as most APIs have it."""

    def __init__(self, *, page: int = 50, token: str = "", port: int = 0) -> None:
        self.page, self.token = page, token
        self.rows: list[dict[str, Any]] = []
        self.answers: list[int] = []
        """Statuses to answer with first, one a request."""
        self.requests: list[str] = []
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                api.requests.append(self.path)
                status, body = api.answer(self.path, self.headers.get("Authorization", ""))
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = _Server(("127.0.0.1", port), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def add(self, count: int, *, per_cursor: int = 7) -> None:
        """So many rows with numbers that go on, some with the same cursor."""
        first = len(self.rows)
        self.rows += [
            {"id": n, "updated_at": f"2026-01-01T00:00:00.{n // per_cursor:06d}Z", "lines": [{"sku": n % 3}]}
            for n in range(first, first + count)
        ]

    def answer(self, path: str, authorization: str) -> tuple[int, bytes]:
        if self.token and authorization != f"Bearer {self.token}":
            return 401, b"{}"
        if self.answers:
            return self.answers.pop(0), b"{}"
        query = {name: values[0] for name, values in parse_qs(urlparse(path).query).items()}
        offset = int(query.get("offset", 0))
        rows = [row for row in self.rows if row["updated_at"] is None or row["updated_at"] >= query.get("since", "")]
        return 200, json.dumps({"data": rows[offset : offset + self.page]}).encode()

    def config(self, **incremental: object) -> str:
        """What rest.config takes."""
        endpoint: dict[str, Any] = {
            "path": "orders",
            "params": {"since": "{incremental.start_value}"},
            "data_selector": "data",
            "paginator": {"type": "offset", "limit": self.page, "total_path": None, "stop_after_empty_page": True},
            "incremental": {"cursor_path": "updated_at", "initial_value": "2026-01-01T00:00:00.000000Z", **incremental},
        }
        resources = [{"name": "orders", "primary_key": "id", "endpoint": endpoint}]
        return json.dumps({"client": {"base_url": self.url}, "resources": resources})

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
