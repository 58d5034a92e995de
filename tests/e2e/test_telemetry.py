"""One trace leads from a request over the leader and its fencing round to tasks and their first transactions."""

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.flow import Flow
from tests.e2e.up import Up
from tests.support.names import unique
from tests.support.otlp_receiver import Receiver, plain
from tests.support.waiting import eventually

pytestmark = pytest.mark.thorough


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    listening = Receiver()
    yield listening
    listening.close()


def test_a_trace_of_a_change(tmp_path: Path, receiver: Receiver) -> None:
    settings = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url,
        "OTEL_EXPORTER_OTLP_HEADERS": "api-key=secret-of-the-collector",
        "OTEL_BSP_SCHEDULE_DELAY": "200",
        "OTEL_METRIC_EXPORT_INTERVAL": "500",
        "RINGFENCE_LOG_FORMAT": "json",
    }
    with Up(tmp_path / "up", workers=1, settings=settings) as up:
        trace, id_ = uuid.uuid4().hex, f"deploy-{uuid.uuid4().hex[:8]}"
        one = Flow(up, unique("traced"), tasks=2).create()
        up.rest.settled(200, "PUT", f"/connectors/{one.name}/config", one.config(password="secret-of-the-source"))
        answer = up.rest.call(
            "PUT",
            f"/connectors/{one.name}/config",
            one.config(password="secret-of-the-source", **{"offset.flush.timeout.ms": "4000"}),
            headers={"traceparent": f"00-{trace}-00f067aa0ba902b7-01", "X-Request-ID": id_},
        )
        assert answer.status_code == 200, answer.text

        def complete() -> list[str]:
            names = receiver.names(trace)
            assert {"leader configure", "leader write", "fencing round", "task start"} <= {*names}, names
            assert [names.count(name) for name in ("task start", "transaction")] == [2, 2], names
            return names

        eventually(complete, 60, lambda: receiver.names(trace), pause=0.2)
        status = "kafka_connect_connector_task_metrics_status"
        eventually(lambda: _metric(receiver, status), 30, "metrics of the cluster")
        one.settle()
        variables = _environments_of_tasks(up)
    for role in ("web", "worker-1"):
        lines = (up.data / "logs" / f"{role}.log").read_text().splitlines()
        objects = [json.loads(line) for line in lines if line.startswith("{")]
        assert not [line for line in lines if " ringfence" in line and not line.startswith("{")]
        ours = [each for each in objects if each.get("request_id") == id_]
        assert ours, f"{role} tells of the request"
        assert {each["trace_id"] for each in ours} == {trace}
    spans = {span.span_id: span for _, span in receiver.spans if span.trace_id.hex() == trace}
    services = {span.name: resource["service.name"] for resource, span in receiver.spans if span.span_id in spans}
    assert services["PUT /connectors/<name:name>/config"] == "ringfence-web"
    assert services["task start"] == services["fencing round"] == "ringfence-worker"
    for span in spans.values():
        assert span.parent_span_id in spans or span.parent_span_id.hex() == "00f067aa0ba902b7", span.name
        assert plain(span.attributes)["ringfence.request"] == id_
        assert span.end_time_unix_nano >= span.start_time_unix_nano
    starts = [plain(span.attributes) for span in spans.values() if span.name == "task start"]
    assert sorted(each["ringfence.task"] for each in starts) == [0, 1]
    assert all(each["ringfence.connector"] == one.name for each in starts)
    firsts = [plain(span.attributes) for span in spans.values() if span.name == "transaction"]
    assert sorted(each["ringfence.task"] for each in firsts) == [0, 1]
    keys = ("ringfence.connector", "ringfence.task", "ringfence.attempt", "ringfence.transactional_id")
    attempts = [{tuple(each[key] for key in keys) for each in group} for group in (starts, firsts)]
    assert attempts[0] == attempts[1]
    assert all(each["ringfence.outcome"] == "committed" and each["ringfence.epoch"] >= 0 for each in firsts)
    assert b"secret-of-the" not in receiver.bodies
    assert variables, "the tasks' processes were looked at"
    assert not [name for each in variables for name in each if name.startswith("OTEL_EXPORTER_")]


def _metric(receiver: Receiver, name: str) -> list[Any]:
    return [metric for _, metric in list(receiver.metrics) if metric.name == name]


def _environments_of_tasks(up: Up) -> list[list[str]]:
    """The names of the variables of all processes below the worker's JVM."""
    import psutil

    found = []
    for child in psutil.Process(up.pid("worker-1")).children(recursive=True):
        try:
            found.append([*child.environ()])
        except psutil.Error:
            continue
    return found
