"""OpenTelemetry's traces, sent by OTLP where an endpoint is set (`OTEL_EXPORTER_OTLP_ENDPOINT`): over HTTP, or gRPC.

Without one nothing of OpenTelemetry is imported, and a span costs a look at a variable. The trace context goes where
the request's id goes (`fencing.request_context`): into Celery messages, and into the config topic's records. So the
fencing round and the starts of tasks are spans of the trace of the request that led to them.

Tasks export nothing, since they reach Kafka only: the leader tells their starts, and the projection samples of their
transactions. Attributes are names and numbers that logs have, too: no configuration, no record, and no message of an
error, which may quote one.
"""

import importlib
import logging
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from ringfence import __version__
from ringfence.fencing import request_context, stages
from ringfence.fencing.request_context import TRACEPARENT, RequestContext

if TYPE_CHECKING:  # imported where an endpoint is set
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Link, Span, Tracer

log = logging.getLogger(__name__)

Value = str | int | float | bool
Attributes = Mapping[str, Value]
NO_ATTRIBUTES: Final[Attributes] = {}
NO_MARKS: Final[Mapping[str, int]] = {}

_PACKAGE: Final = "opentelemetry"
_ENDPOINT: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"
_PROTOCOL: Final = "OTEL_EXPORTER_OTLP_PROTOCOL"
_MISSING: Final = (
    "%s is set, but OpenTelemetry's exporter is not installed (%s), so no %s are exported: pip install "
    "'ringfence[%s]', or unset it"
)
_GRPC: Final = "grpc"
_HTTP: Final = "http/protobuf"
_LAST_MS: Final = 5000


_tracer: "list[Tracer]" = []
_provider: "list[TracerProvider]" = []
_current: "ContextVar[Span | None]" = ContextVar("span", default=None)


def import_redis() -> None:
    """Import redis-py without OpenTelemetry, which it loads wherever it finds it, for metrics of its own that nobody
    here turns on: 0.07 s of CPU and some MiB in each process. Call it before anything else imports redis-py.
    """
    if "redis" in sys.modules or _PACKAGE in sys.modules:
        return
    sys.modules[_PACKAGE] = None  # type: ignore[assignment]  # Python's way to say that there is no such module
    try:
        importlib.import_module("redis")
    finally:
        del sys.modules[_PACKAGE]


def is_wanted(signal: str, environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether to export `traces` or `metrics`, by OpenTelemetry's own variables."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    if environment.get(f"OTEL_{signal.upper()}_EXPORTER", "").strip().lower() == "none":
        return False
    names = (_ENDPOINT, f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT")
    return any(environment.get(name, "").strip() for name in names)


def is_on() -> bool:
    return bool(_tracer)


def start(process: str, instance: str) -> None:
    """Export this process's spans from now on, if an endpoint is set. process: web or worker; instance: its name.

    Call it once, before the first span. Where OpenTelemetry is missing, it says so in the log.
    """
    if not is_wanted("traces"):
        return
    exporter = new_exporter("traces")
    if exporter is None:
        return
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider(resource=resource(process, instance), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    _provider[:] = [provider]
    _tracer[:] = [provider.get_tracer("ringfence", __version__)]
    stages.trace_with(span)


def stop() -> None:
    """Export what is left, for some seconds."""
    stages.trace_with(None)
    _tracer.clear()
    for provider in _provider:
        provider.force_flush(_LAST_MS)
        provider.shutdown()
    _provider.clear()


def new_exporter(signal: str) -> Any:
    """Return OpenTelemetry's exporter of `traces` or `metrics` for the protocol that is set. None where it is not
    installed, which the log says.
    """
    variable = f"OTEL_EXPORTER_OTLP_{signal.upper()}_PROTOCOL"
    protocol = (os.environ.get(variable) or os.environ.get(_PROTOCOL, "")).strip().lower() or _HTTP
    if protocol not in (_HTTP, _GRPC):
        log.warning("%s=%s: %s is used; %s is the other one that can be", _PROTOCOL, protocol, _HTTP, _GRPC)
    transport = "grpc" if protocol == _GRPC else "http"
    kind = {"traces": "trace", "metrics": "metric"}[signal]
    try:
        module = importlib.import_module(f"opentelemetry.exporter.otlp.proto.{transport}.{kind}_exporter")
    except ImportError as error:
        extra = "otlp-grpc" if protocol == _GRPC else "otlp"
        log.error(_MISSING, _ENDPOINT, error, signal, extra)  # noqa: TRY400 - the message says it all
        return None
    return (module.OTLPSpanExporter if signal == "traces" else module.OTLPMetricExporter)()


def resource(process: str, instance: str) -> "Resource":
    """Return who exports, "" for the cluster as a whole. OpenTelemetry's variables (`OTEL_SERVICE_NAME`,
    `OTEL_RESOURCE_ATTRIBUTES`) go first.
    """
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource

    ours = {"service.name": f"ringfence-{process}".strip("-"), "service.version": __version__}
    if instance:
        ours["service.instance.id"] = instance
    return Resource.create(ours).merge(OTELResourceDetector().detect())


@contextmanager
def span(name: str, kind: str = "internal", attributes: Attributes = NO_ATTRIBUTES) -> Iterator[None]:
    """Trace this block: its span is a part of the one that this thread, or the sender of its request, is in.

    kind: internal, server, consumer or producer.
    """
    if not _tracer:
        yield
        return
    request = request_context.current()
    one = _begin(name, kind, request, attributes)
    token = _current.set(one)
    try:
        with request_context.working_for(RequestContext(request.id, _traceparent_of(one))):
            yield
    except Exception as error:
        _fail(one)
        one.set_attribute("error.type", type(error).__name__)
        raise
    finally:
        _current.reset(token)
        one.end()


def span_of(
    request: RequestContext, name: str, kind: str = "internal", attributes: Attributes = NO_ATTRIBUTES
) -> AbstractContextManager[None]:
    """As `span`, for what somebody's request has led to; no span for what nobody has asked for."""
    return span(name, kind, attributes) if request.id else nullcontext()


def tell(
    name: str,
    request: RequestContext,
    start_ms: int,
    end_ms: int,
    attributes: Attributes,
    *,
    kind: str = "internal",
    links: Sequence[str] = (),
    marks: Mapping[str, int] = NO_MARKS,
    failed: bool = False,
) -> None:
    """Trace something that happened elsewhere, by wall clock.

    request: what led to it, with its parent's trace context; links: other trace contexts that it belongs to; marks:
    times within it, by name.
    """
    if not _tracer:
        return
    one = _begin(name, kind, request, attributes, start_ms * 1_000_000, links)
    for mark, at_ms in marks.items():
        one.add_event(mark, timestamp=at_ms * 1_000_000)
    if failed:
        _fail(one)
    one.end(max(start_ms, end_ms) * 1_000_000)


def note(attributes: Attributes, *, name: str = "", failed: bool = False) -> None:
    """Note what is learned about the span that this thread is in. name: its new one, "" for the one that it has."""
    one = _current.get()
    if one is None:
        return
    one.set_attributes(attributes)
    if name:
        one.update_name(name)
    if failed:
        _fail(one)


def _begin(
    name: str,
    kind: str,
    request: RequestContext,
    attributes: Attributes,
    start_ns: int | None = None,
    links: Sequence[str] = (),
) -> "Span":
    from opentelemetry.trace import SpanKind
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    parent = TraceContextTextMapPropagator().extract({TRACEPARENT: request.trace})
    about = {**attributes, "ringfence.request": request.id} if request.id else attributes
    return _tracer[0].start_span(
        name,
        parent,
        SpanKind[kind.upper()],
        about,
        [_link_to(each) for each in links],
        start_time=start_ns,
        record_exception=False,
    )


def _link_to(traceparent: str) -> "Link":
    from opentelemetry.trace import Link, get_current_span
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    context = TraceContextTextMapPropagator().extract({TRACEPARENT: traceparent})
    return Link(get_current_span(context).get_span_context())


def _traceparent_of(one: "Span") -> str:
    context = one.get_span_context()
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def _fail(one: "Span") -> None:
    from opentelemetry.trace import StatusCode

    one.set_status(StatusCode.ERROR)
