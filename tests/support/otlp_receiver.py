"""A receiver of OTLP over HTTP, which decodes with OpenTelemetry's own messages, and a real collector before it."""

import gzip
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue

from ringfence.local.ports import free_port
from tests.support.built_tools import find, started
from tests.support.waiting import eventually


def plain(attributes: Any) -> dict[str, Any]:
    """The attributes as a dict."""
    pairs: list[KeyValue] = list(attributes)
    return {each.key: getattr(each.value, str(each.value.WhichOneof("value"))) for each in pairs}


class Receiver:
    """Listens until `close`. Each span comes with its resource's attributes; each metric, too."""

    def __init__(self) -> None:
        self.spans: list[tuple[dict[str, Any], Any]] = []
        self.metrics: list[tuple[dict[str, Any], Any]] = []
        self.headers: list[dict[str, str]] = []
        self.bodies = b""
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                outer.take(self.path, body, dict(self.headers))
                self.send_response(200)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def take(self, path: str, body: bytes, headers: dict[str, str]) -> None:
        self.bodies += body
        self.headers.append(headers)
        if path == "/v1/traces":
            for group in ExportTraceServiceRequest.FromString(body).resource_spans:
                resource = plain(group.resource.attributes)
                self.spans += [(resource, span) for scope in group.scope_spans for span in scope.spans]
        elif path == "/v1/metrics":
            for group in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                resource = plain(group.resource.attributes)
                self.metrics += [(resource, metric) for scope in group.scope_metrics for metric in scope.metrics]

    def names(self, trace: str = "") -> list[str]:
        """The names of the spans, of this trace (hexadecimal)."""
        return [span.name for _, span in self.spans if trace in ("", span.trace_id.hex())]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextmanager
def collector(folder: Path, to: str) -> Iterator[dict[str, str]]:
    """OpenTelemetry's collector, which sends on to `to` what it has understood. Gives its address for each protocol."""
    program = find("otelcol", "make otelcol builds it, where Go is")
    ports = {"grpc": free_port(), "http/protobuf": free_port()}
    protocols = {name.partition("/")[0]: {"endpoint": f"127.0.0.1:{port}"} for name, port in ports.items()}
    pipeline = {"receivers": ["otlp"], "exporters": ["otlp_http"]}
    config = {
        "receivers": {"otlp": {"protocols": protocols}},
        "exporters": {"otlp_http": {"endpoint": to, "sending_queue": {"enabled": False}}},
        "service": {
            "pipelines": {"traces": pipeline, "metrics": pipeline},
            "telemetry": {"metrics": {"level": "none"}},
        },
    }
    file, log = folder / "otelcol.yaml", folder / "otelcol.log"
    file.write_text(yaml.safe_dump(config))

    with started([program, f"--config={file}"], log) as process:

        def listens() -> bool:
            if process.poll() is not None:
                return True
            try:
                for port in ports.values():
                    socket.create_connection(("127.0.0.1", port), 1).close()
            except OSError:
                return False
            return True

        eventually(listens, 60, log.read_text, pause=0.1)
        assert process.poll() is None, log.read_text()
        yield {name: f"http://127.0.0.1:{port}" for name, port in ports.items()}
