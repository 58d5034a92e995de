"""A REST API on the loopback interface: rows with a cursor, in pages, and with troubles where a test wants them."""

import json
from typing import Any
from urllib.parse import parse_qs, urlparse

from tests.support.loopback_api import Answer, LoopbackApi, Request


class OrdersApi(LoopbackApi):
    """GET /orders?since=…&offset=…&limit=…: rows from the cursor on, inclusive, as most APIs have it."""

    def __init__(self, *, page: int = 50, token: str = "", port: int = 0) -> None:
        self.page, self.token = page, token
        self.rows: list[dict[str, Any]] = []
        self.answers: list[int] = []
        """Statuses to answer with first, one a request."""
        self.requests: list[str] = []
        self.statuses: list[int] = []
        """Of its answers, in order."""
        super().__init__(port)

    def add(self, count: int, *, per_cursor: int = 7) -> None:
        """So many rows with numbers that go on, some with the same cursor."""
        first = len(self.rows)
        self.rows += [
            {"id": n, "updated_at": f"2026-01-01T00:00:00.{n // per_cursor:06d}Z", "lines": [{"sku": n % 3}]}
            for n in range(first, first + count)
        ]

    def respond(self, request: Request) -> Answer:
        self.requests.append(request.path)
        answer = self._answer(request)
        self.statuses.append(answer.status)
        return answer

    def _answer(self, request: Request) -> Answer:
        if self.token and request.authorization != f"Bearer {self.token}":
            return Answer(b"{}", status=401)
        if self.answers:
            return Answer(b"{}", status=self.answers.pop(0))
        query = {name: values[0] for name, values in parse_qs(urlparse(request.path).query).items()}
        offset = int(query.get("offset", 0))
        rows = [row for row in self.rows if row["updated_at"] is None or row["updated_at"] >= query.get("since", "")]
        return Answer(json.dumps({"data": rows[offset : offset + self.page]}).encode())

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
