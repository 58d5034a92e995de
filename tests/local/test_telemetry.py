"""A web process exports traces and metrics where an endpoint is set, and loads nothing of it where none is."""

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from ringfence import telemetry
from ringfence.local.ports import free_port
from tests.e2e.up import environment
from tests.support.otlp_receiver import Receiver, collector, plain
from tests.support.waiting import eventually

_TRACE = "0af7651916cd43dd8448eb211c80319c"
_PARENT = "b7ad6b7169203331"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    listening = Receiver()
    yield listening
    listening.close()


_WEB = """
import sys
import ringfence.asgi, ringfence.commands.web
from ringfence import telemetry
from ringfence.metrics.otlp import exported_metrics
telemetry.start("web", "here")
with telemetry.span("one"), exported_metrics("here"):
    telemetry.note({"a": 1})
"""
_WORKER = """
import sys
from ringfence.cli import main
assert main(["worker", "--id", "w"]) == 1, "it has no key"
import ringfence.engine.spark.task_process
"""


@pytest.mark.parametrize("script", [_WEB, _WORKER], ids=["web", "worker"])
def test_nothing_is_loaded_without_an_endpoint(script: str) -> None:
    script += """
assert "redis" in sys.modules
assert not [name for name in sys.modules if name.startswith("opentelemetry")]
"""
    settings = {"DJANGO_SETTINGS_MODULE": "ringfence.settings", "CONNECT_BOOTSTRAP_SERVERS": "127.0.0.1:1"}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment(settings), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("variables", "traces", "metrics"),
    [
        ({}, False, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, True, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": " "}, False, False),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/v1/traces"}, True, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_SDK_DISABLED": "true"}, False, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_METRICS_EXPORTER": "none"}, True, False),
    ],
)
def test_opentelemetrys_variables_decide(variables: dict[str, str], traces: bool, metrics: bool) -> None:
    assert telemetry.is_wanted("traces", variables) is traces
    assert telemetry.is_wanted("metrics", variables) is metrics


@contextmanager
def web_process(folder: Path, settings: Mapping[str, str]) -> Iterator[str]:
    """Runs in the block, which gets its address."""
    address = f"127.0.0.1:{free_port()}"
    settings = {
        "RINGFENCE_DATABASE_URL": f"sqlite:///{folder}/db.sqlite3",
        "RINGFENCE_ENCRYPTION_KEYS": os.urandom(32).hex(),
        "OTEL_METRIC_EXPORT_INTERVAL": "300",
        **settings,
    }
    with (folder / "web.log").open("w") as output:
        web = subprocess.Popen(
            [sys.executable, "-m", "ringfence.cli", "web", "--http", address],
            env=environment(settings), stdout=output, stderr=output, cwd=folder,
        )  # fmt: skip
    try:
        eventually(lambda: web.poll() is None and _is_up(address), 60, "the web process is up", pause=0.1)
        yield address
    finally:
        web.send_signal(signal.SIGTERM)
        web.wait(30)


def call(address: str) -> httpx.Response:
    headers = {"traceparent": f"00-{_TRACE}-{_PARENT}-01", "X-Request-ID": "deploy-20"}
    headers["Authorization"] = "Bearer secret-of-the-sender"
    answer = httpx.get(f"http://{address}/connectors?x=secret-of-the-query", headers=headers)
    httpx.get(f"http://{address}/metrics", headers=headers)
    return answer


def _has_requests(receiver: Receiver) -> bool:
    return any(metric.name == "ringfence_http_requests_total" for _, metric in receiver.metrics)


@pytest.mark.program
@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_a_collector_understands_it(tmp_path: Path, receiver: Receiver, protocol: str) -> None:
    """OpenTelemetry's own, which sends on what it has understood: the same spans and metrics, by both protocols."""
    with collector(tmp_path, receiver.url) as endpoints:
        settings = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": endpoints[protocol],
            "OTEL_EXPORTER_OTLP_PROTOCOL": protocol,
            "OTEL_BSP_SCHEDULE_DELAY": "200",
        }
        with web_process(tmp_path, settings) as address:
            call(address)
            eventually(lambda: _has_requests(receiver) and receiver.names(_TRACE), 60, "it arrives", pause=0.1)
    ((resource, span),) = [each for each in receiver.spans if each[1].trace_id.hex() == _TRACE]
    assert (resource["service.name"], span.name) == ("ringfence-web", "GET /connectors")
    assert span.parent_span_id.hex() == _PARENT
    assert plain(span.attributes)["ringfence.request"] == "deploy-20"
    _check_metrics(receiver, address)


def test_an_exporter_that_is_missing_is_named_with_its_remedy(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4317")
    for protocol, package, extra in (("grpc", "grpc", "otlp-grpc"), ("http/protobuf", "http", "otlp")):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
        with monkeypatch.context() as without:
            without.setitem(sys.modules, f"opentelemetry.exporter.otlp.proto.{package}", None)
            without.delitem(sys.modules, f"opentelemetry.exporter.otlp.proto.{package}.trace_exporter", raising=False)
            caplog.clear()
            with caplog.at_level(logging.ERROR):
                telemetry.start("web", "here")
        assert not telemetry.is_on()
        assert f"pip install 'ringfence[{extra}]'" in caplog.text


def test_a_web_process_exports(tmp_path: Path, receiver: Receiver) -> None:
    settings = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url,
        "OTEL_EXPORTER_OTLP_HEADERS": "api-key=secret-of-the-collector",
        "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment=test",
    }
    with web_process(tmp_path, settings) as address:
        answer = call(address)
        eventually(lambda: _has_requests(receiver), 30, "metrics arrive", pause=0.1)
    log = tmp_path / "web.log"
    ((resource, span),) = [each for each in receiver.spans if each[1].trace_id.hex() == _TRACE]
    assert resource["service.name"] == "ringfence-web"
    assert resource["service.instance.id"] == address
    assert resource["deployment.environment"] == "test"
    assert span.parent_span_id.hex() == _PARENT
    assert span.name == "GET /connectors"
    attributes = plain(span.attributes)
    assert attributes["http.response.status_code"] == answer.status_code
    assert attributes["url.path"] == "/connectors"
    assert attributes["ringfence.request"] == "deploy-20"
    assert "/metrics" not in {plain(each.attributes)["url.path"] for _, each in receiver.spans}, "it asks all the time"
    for secret in (b"secret-of-the-sender", b"secret-of-the-query", b"secret-of-the-collector"):
        assert secret not in receiver.bodies
        assert secret not in log.read_bytes()
    assert receiver.headers[0]["api-key"] == "secret-of-the-collector"
    _check_metrics(receiver, address)


def _check_metrics(receiver: Receiver, address: str) -> None:
    latest = {metric.name: (resource, metric) for resource, metric in receiver.metrics}
    resource, requests = latest["ringfence_http_requests_total"]
    assert resource["service.instance.id"] == address
    assert requests.sum.is_monotonic
    counts = {tuple(plain(each.attributes).items()): each.as_double for each in requests.sum.data_points}
    assert sum(counts.values()) >= 2
    _, durations = latest["ringfence_http_request_duration_seconds"]
    for point in durations.histogram.data_points:
        assert sum(point.bucket_counts) == point.count
        assert len(point.bucket_counts) == len(point.explicit_bounds) + 1
        assert not point.HasField("max")
    assert latest["process_resident_memory_bytes"][1].gauge.data_points[0].as_double > 1e7
    cluster = [resource for resource, metric in receiver.metrics if metric.name.startswith("kafka_connect")]
    assert all(each["service.name"] == "ringfence" and "service.instance.id" not in each for each in cluster)


def _is_up(address: str) -> bool:
    try:
        return httpx.get(f"http://{address}/health/live").status_code == 200
    except httpx.TransportError:
        return False
