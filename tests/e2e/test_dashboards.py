"""Others' dashboards, and our own, on the data of a running platform: no panel is empty without a reason."""

import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.flow import Flow
from tests.e2e.up import Up
from tests.support.names import unique
from tests.support.prometheus import Prometheus, running
from tests.support.public_dashboards import CALM, CONFLUENT, CONFLUENT_OLD, STRIMZI, STRIMZI_REPORTER, PublicDashboard
from tests.support.waiting import eventually

OURS = Path(__file__).parents[2] / "deploy" / "grafana"
PUBLIC = {
    "strimzi": STRIMZI,
    "strimzi-reporter": STRIMZI_REPORTER,
    "confluent": CONFLUENT,
    "confluent-old": CONFLUENT_OLD,
}
DATA_SECONDS = 60.0


def scrape(up: Up, job: str, labels: dict[str, str], **params: list[str]) -> dict[str, Any]:
    return {
        "job_name": job,
        "params": params,
        "static_configs": [{"targets": [up.http], "labels": labels}],
    }


@pytest.fixture(scope="module")
def prometheus(shared_up: Up, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """One that scrapes a platform with a connector in each state that dashboards count."""
    folder = tmp_path_factory.mktemp("prometheus")
    runs, paused, stopped = (Flow(shared_up, unique(what)).create() for what in ("runs", "paused", "stopped"))
    rest, failed, files = shared_up.rest, unique("fails"), unique("files")
    (folder / "source").mkdir()
    (folder / "source" / "lines.txt").write_text("1\nno number\n")
    cast = {"transforms": "n", "transforms.n.type": "Cast$Value", "transforms.n.spec": "int64"}
    lines = {"connector.class": "FileStreamSource", "topic": failed, "file": str(folder / "source" / "lines.txt")}
    rest.create(failed, {**lines, **cast})
    whole = {"connector.class": "FilesSource", "topic": files, "url": f"file://{folder}/source", "format": "text"}
    rest.create(files, whole)
    rest.settled(202, "PUT", f"/connectors/{paused.name}/pause")
    rest.settled(204, "PUT", f"/connectors/{stopped.name}/stop")
    eventually(lambda: rest.status(failed)["tasks"][0]["state"] == "FAILED", 60, "a failed task", pause=0.2)
    scrapes = [
        scrape(shared_up, public.labels.get("job", name), {k: v for k, v in public.labels.items() if k != "job"})
        | {"params": {"names": [public.names]}}
        for name, public in PUBLIC.items()
        if name != "confluent-old"  # the same scrape
    ]
    try:
        with running(folder / "prometheus", [*scrapes, scrape(shared_up, "ringfence", {})]) as prometheus:
            yield prometheus
    finally:
        for flow in (runs, paused, stopped):
            flow.close()
        for name in (failed, files):
            rest.settled(204, "DELETE", f"/connectors/{name}")


@pytest.mark.thorough
@pytest.mark.parametrize("name", PUBLIC)
def test_no_panel_of_a_public_dashboard_is_empty_without_a_reason(prometheus: Prometheus, name: str) -> None:
    public: PublicDashboard = PUBLIC[name]
    expressions = public.expressions()
    assert len(expressions) > 3
    for expression, why in expressions:
        if not why:
            eventually(partial(prometheus.query, expression), DATA_SECONDS, f"{name}: {expression}", pause=0.5)
    needless = [e for e, why in expressions if why not in ("", CALM) and prometheus.query(e)]
    assert needless == []  # a reason that is none any more


def panels(dashboard: dict[str, Any]) -> list[tuple[str, str]]:
    """Title and expression of each query, with the variables chosen."""
    found = []
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            expression = re.sub(r"\$__rate_interval", "1m", target["expr"]).replace("$connector", ".+")
            found.append((panel["title"], expression))
    return found


@pytest.mark.thorough
@pytest.mark.parametrize("file", sorted(OURS.glob("*.json")), ids=lambda file: file.stem)
def test_no_panel_of_our_own_dashboards_is_empty(prometheus: Prometheus, file: Path) -> None:
    dashboard = json.loads(file.read_text())
    found = panels(dashboard)
    assert len(found) >= 5
    for title, expression in found:
        eventually(partial(prometheus.query, expression), DATA_SECONDS, f"{title}: {expression}", pause=0.5)
