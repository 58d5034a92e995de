"""A real Prometheus, which scrapes a platform every two seconds, and its `promtool`."""

import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from ringfence.local.ports import free_port
from tests.support.waiting import eventually

NEEDS = "Prometheus"

Json = Any


def find(program: str) -> str:
    """The path of `prometheus` or `promtool`. Skips the test where there is none."""
    path = shutil.which(program)
    if path is None:
        pytest.skip(f"no {program} on the PATH: apt-get install prometheus")
    return path


class Prometheus:
    """Queries to one."""

    def __init__(self, url: str) -> None:
        self._http = httpx.Client(base_url=url, timeout=30)

    def query(self, expression: str) -> list[Json]:
        """The samples of an instant query: `{"metric": labels, "value": [time, text]}`."""
        answer = self._http.get("/api/v1/query", params={"query": expression}).json()
        assert answer["status"] == "success", (expression, answer)
        result: list[Json] = answer["data"]["result"]
        return result

    def values(self, expression: str, label: str) -> set[str]:
        """The values of a label in what a query finds."""
        return {sample["metric"][label] for sample in self.query(expression) if label in sample["metric"]}

    def targets(self) -> list[Json]:
        """What is scraped. Raises httpx.HTTPError while Prometheus is starting."""
        active: list[Json] = self._http.get("/api/v1/targets").raise_for_status().json()["data"]["activeTargets"]
        return active

    def firing(self) -> dict[str, list[dict[str, str]]]:
        """The labels of the alerts that fire, by their name."""
        found: dict[str, list[dict[str, str]]] = {}
        for alert in self._http.get("/api/v1/alerts").json()["data"]["alerts"]:
            if alert["state"] == "firing":
                found.setdefault(alert["labels"]["alertname"], []).append(alert["labels"])
        return found

    def texts(self, *alerts: str) -> list[str]:
        """The texts of these alerts, as far as they are active, with their values filled in."""
        active = self._http.get("/api/v1/alerts").json()["data"]["alerts"]
        return [text for one in active if one["labels"]["alertname"] in alerts for text in one["annotations"].values()]

    def close(self) -> None:
        self._http.close()


@contextmanager
def running(root: Path, scrapes: Sequence[Mapping[str, Any]], rules: Json = None) -> Iterator[Prometheus]:
    """Prometheus with these scrape configurations, each scraped every two seconds, and these rules.

    Returns when each target has been scraped.
    """
    program = find("prometheus")
    root.mkdir(exist_ok=True)
    config: Json = {
        "global": {"scrape_interval": "2s", "scrape_timeout": "2s", "evaluation_interval": "1s"},
        "scrape_configs": list(scrapes),
    }
    if rules is not None:
        (root / "rules.yml").write_text(yaml.safe_dump(rules))
        config["rule_files"] = [str(root / "rules.yml")]
    (root / "prometheus.yml").write_text(yaml.safe_dump(config))
    address = f"127.0.0.1:{free_port()}"
    with (root / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                program,
                f"--config.file={root / 'prometheus.yml'}",
                f"--storage.tsdb.path={root / 'data'}",
                f"--web.listen-address={address}",
            ],
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    prometheus = Prometheus(f"http://{address}")

    def scraped() -> bool:
        assert process.poll() is None, (root / "log").read_text()
        try:
            targets = prometheus.targets()
        except httpx.HTTPError:
            return False
        return bool(targets) and all(target["health"] == "up" for target in targets)

    try:
        eventually(scraped, 30, lambda: (root / "log").read_text()[-3000:], pause=0.2)
        yield prometheus
    finally:
        prometheus.close()
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
