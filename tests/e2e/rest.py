"""Kafka Connect's REST API as the tests use it."""

from typing import Any

import httpx

from tests.support.waiting import eventually

Json = dict[str, Any]
_STARTING = "The plugin process is still starting"


class Rest:
    """One server. Methods raise AssertionError for an answer that was not expected."""

    def __init__(self, url: str, token: str = "", client: httpx.Client | None = None) -> None:
        """client: how the server is reached, if it is not by plain HTTP."""
        self.url = url
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._client = client or httpx.Client(base_url=url, timeout=100, headers=headers)

    def call(self, method: str, path: str, body: object = None, **options: Any) -> httpx.Response:
        """Whatever the answer is."""
        if body is not None:
            options["json"] = body
        return self._client.request(method, path, **options)

    def started(self, method: str, path: str, body: object) -> httpx.Response:
        """As `call`, sent again while the plugin process still starts: a busy machine takes longer than a request."""
        answers: list[httpx.Response] = []

        def attempt() -> bool:
            answers.append(self.call(method, path, body))
            return answers[-1].status_code != 500 or _STARTING not in answers[-1].text

        eventually(attempt, 60, lambda: f"{method} {path}: {answers[-1].text}", pause=0.3)
        return answers[-1]

    def expect(self, status: int, method: str, path: str, body: object = None) -> Any:
        """The body of an answer with this status; None for an empty one."""
        answer = self.call(method, path, body)
        assert answer.status_code == status, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    def settled(self, status: int, method: str, path: str, body: object = None, timeout: float = 30) -> Any:
        """As `expect`, sent again while the answer invites to (409, and errors between two leaders)."""

        def attempt() -> tuple[object]:
            answer = self.call(method, path, body)
            assert answer.status_code == status, f"{method} {path}: {answer.status_code} {answer.text}"
            return (answer.json() if answer.content else None,)

        return eventually(attempt, timeout, f"{method} {path}", pause=0.3)[0]

    def create(self, name: str, config: Json) -> Json:
        created: Json = self.settled(201, "POST", "/connectors", {"name": name, "config": config})
        return created

    def status(self, name: str) -> Json:
        status: Json = self.expect(200, "GET", f"/connectors/{name}/status")
        return status

    def close(self) -> None:
        self._client.close()
