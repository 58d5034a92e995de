"""Runs the script against one server."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.differential.shapes import Answer
from tests.support.waiting import eventually

JSON = "application/json"
_WAIT_SECONDS = 90.0


@dataclass(frozen=True)
class Ask:
    """One request. `body`: sent as JSON; `raw`: sent as it is. `pick`: the part of the answer that is compared.

    A 409 that is not expected is asked again: both servers give them while tasks are on their way.
    """

    name: str
    method: str
    path: str
    body: object = None
    raw: bytes | None = None
    content_type: str | None = JSON
    headers: Mapping[str, str] = field(default_factory=dict)
    by_name: bool = False
    pick: Callable[[Any], Any] | None = None
    conflicts: bool = False


@dataclass(frozen=True)
class Until:
    """Wait until the answer to a GET is as wanted: nothing is compared."""

    path: str
    holds: Callable[[Any], bool]


Step = Ask | Until


class Side:
    """One server."""

    def __init__(self, url: str) -> None:
        self._client = httpx.Client(base_url=url, timeout=100)
        self.answers: dict[str, Answer] = {}
        self.bodies: dict[str, Any] = {}

    def run(self, steps: list[Step]) -> None:
        """All steps in their order."""
        for step in steps:
            if isinstance(step, Until):
                self._await(step)
            else:
                self._ask(step)
        self._client.close()

    def _await(self, step: Until) -> None:
        def holds() -> bool:
            response = self._client.get(step.path)
            return response.status_code == 200 and step.holds(response.json())

        eventually(holds, _WAIT_SECONDS, lambda: f"{step.path}: {self._client.get(step.path).text}", pause=0.2)

    def _ask(self, ask: Ask) -> None:
        assert ask.name not in self.answers, f"two steps are called {ask.name}"
        response = self._send(ask)
        if response.status_code == 409 and not ask.conflicts:
            last = [response]

            def settled() -> bool:
                last[0] = self._send(ask)
                return last[0].status_code != 409

            eventually(settled, _WAIT_SECONDS, lambda: f"{ask.name}: {last[0].text}", pause=0.3)
            response = last[0]
        if ask.pick is not None and response.status_code == 200:
            response = httpx.Response(200, headers={"content-type": JSON}, json=ask.pick(response.json()))
        self.answers[ask.name] = Answer.of(response, ask.by_name)
        self.bodies[ask.name] = _loaded(response)

    def _send(self, ask: Ask) -> httpx.Response:
        content = ask.raw if ask.body is None else json.dumps(ask.body).encode()
        headers = dict(ask.headers)
        if content is not None and ask.content_type is not None:
            headers["Content-Type"] = ask.content_type
        return self._client.request(ask.method, ask.path, content=content, headers=headers)


def _loaded(response: httpx.Response) -> Any:
    try:
        return response.json()
    except ValueError:
        return response.text
