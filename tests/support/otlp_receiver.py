"""A receiver of OTLP over HTTP, as a collector has one: it decodes with OpenTelemetry's own messages."""

import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue


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
