"""The part of the Kafka Connect REST API that benchmarks need: the same calls for both sides."""

import json
import time
from collections.abc import Collection, Mapping, Sequence
from types import TracebackType
from typing import Any

import httpx

SECONDS = 60.0
_BULK_SECONDS = 300.0


class BenchmarkError(Exception):
    """A run cannot continue; the message contains the reason and where to look."""


class Rest:
    """One side's API at `url`."""

    def __init__(self, url: str) -> None:
        self._client = httpx.Client(base_url=url, timeout=SECONDS)

    def __enter__(self) -> "Rest":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._client.close()

    def is_ready(self, path: str) -> bool:
        """Return whether GET `path` returns 200."""
        try:
            return self._client.get(path, timeout=5).status_code == 200
        except httpx.HTTPError:
            return False

    def create(self, name: str, config: Mapping[str, str]) -> None:
        """Create a connector."""
        body = {"name": name, "config": dict(config)}
        self._send(f"connector {name} was not created", (201,), "POST", "/connectors", json=body)

    def create_all(self, configs: Mapping[str, Mapping[str, str]]) -> None:
        """Create connectors by one request. Ringfence only."""
        text = json.dumps([{"name": name, "config": dict(config)} for name, config in configs.items()])
        self._send_bulk("/api/v1/import", {"format": "json", "text": text})

    def delete_all(self, names: Sequence[str]) -> None:
        """Delete connectors by one request. Ringfence only."""
        self._send_bulk("/api/v1/bulk/delete", {"connectors": list(names)})

    def _send_bulk(self, path: str, body: Mapping[str, Any]) -> None:
        answer = self._client.post(path, json=body, timeout=_BULK_SECONDS)
        if answer.status_code != 200:
            raise BenchmarkError(f"{path}: {answer.status_code} {answer.text[:500]}")
        if refused := [each for each in answer.json()["results"] if not each["ok"]]:
            raise BenchmarkError(f"{path}: {len(refused)} were refused, the first with {refused[0]}")

    def configure(self, name: str, config: Mapping[str, str]) -> None:
        """Set a configuration."""
        path = f"/connectors/{name}/config"
        self._send(f"connector {name} was not changed", (200,), "PUT", path, json=dict(config))

    def restart(self, name: str) -> None:
        """Restart the connector and its tasks."""
        path, params = f"/connectors/{name}/restart", {"includeTasks": "true"}
        self._send(f"connector {name} was not restarted", (200, 202, 204), "POST", path, params=params)

    def _send(self, failure: str, success: Collection[int], method: str, path: str, **content: Any) -> None:
        """Send a request; repeat it while the worker is busy with a rebalance. Raises `BenchmarkError`."""
        deadline = time.monotonic() + SECONDS
        while True:
            answer = self._client.request(method, path, **content)
            if answer.status_code in success:
                return
            if answer.status_code != 409 or time.monotonic() > deadline:
                raise BenchmarkError(f"{failure}: {answer.status_code} {answer.text[:500]}")
            time.sleep(0.2)

    def running(self, name: str) -> int:
        """Return how many tasks are RUNNING; -1 if one is in another state."""
        answer = self._client.get(f"/connectors/{name}/status")
        if answer.status_code != 200:
            return -1
        states = [task["state"] for task in answer.json()["tasks"]]
        return len(states) if set(states) <= {"RUNNING"} else -1

    def all_running(self) -> int:
        """Return how many connectors have tasks, all of them RUNNING."""
        answer = self._client.get("/connectors", params={"expand": "status"})
        if answer.status_code != 200:
            return 0
        states = [[task["state"] for task in one["status"]["tasks"]] for one in answer.json().values()]
        return sum(bool(each) and set(each) == {"RUNNING"} for each in states)

    def worker_of(self, name: str, task: int) -> str:
        """Return the worker that runs the task, as the status names it."""
        answer = self._client.get(f"/connectors/{name}/status")
        placed = [one["worker_id"] for one in answer.raise_for_status().json()["tasks"] if one["id"] == task]
        if not placed:
            raise BenchmarkError(f"connector {name} has no task {task}")
        return str(placed[0])

    def leader(self) -> str:
        """Return the worker that leads. Ringfence only."""
        return str(self._client.get("/api/v1/leader").raise_for_status().json()["leader"])

    def trouble(self, name: str) -> str | None:
        """Return the trace of a FAILED connector or task; None if there is none."""
        answer = self._client.get(f"/connectors/{name}/status")
        if answer.status_code != 200:
            return None  # not known yet, or a rebalance
        status = answer.json()
        for part in (status["connector"], *status["tasks"]):
            if part["state"] == "FAILED":
                return str(part.get("trace") or "no trace")
        return None

    def delete(self, name: str) -> None:
        """Delete a connector; return when it is gone."""
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            self._client.delete(f"/connectors/{name}")
            if self._client.get(f"/connectors/{name}/status").status_code == 404:
                return
            time.sleep(0.2)
        raise BenchmarkError(f"connector {name} was not deleted within {SECONDS:.0f} s")
