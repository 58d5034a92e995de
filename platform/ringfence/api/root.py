"""`GET /`, `GET /health`, and the probes of a web process: `/health/live`, `/health/ready`."""

import threading
import time

from django.db import Error as DatabaseError
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from redis.exceptions import RedisError
from rest_framework.request import Request
from rest_framework.response import Response

from ringfence import __version__, dispatch, redis_clock
from ringfence.access.authorise import ANYONE, PUBLIC, requires
from ringfence.api.base import ConnectView, options_response
from ringfence.dispatch import Refusal
from ringfence.engine.leader.commands import Ping
from ringfence.heartbeats.cluster_view import look
from ringfence.http.errors import json_error
from ringfence.projection import cluster_topics
from ringfence.projection.health import count_attention, known_health
from ringfence.projection.models import ClusterInfo, Connector

CONNECT_VERSION = "4.3.0"
"""The version of Kafka Connect whose API this is. Clients use it to decide which calls they may make."""

_METHODS = ("GET", "HEAD", "OPTIONS")
_PING_SECONDS = 3.0
_CACHED_SECONDS = 1.0


@requires(GET=ANYONE, OPTIONS=ANYONE)
@csrf_exempt
def root(request: HttpRequest) -> HttpResponse:
    """Redirect a browser to the dashboard; return Kafka Connect's version object to other clients."""
    if request.method == "OPTIONS":
        return options_response(_METHODS)
    if request.method not in _METHODS:
        refusal = json_error(405, "HTTP 405 Method Not Allowed")
        refusal["Allow"] = ", ".join(_METHODS)
        return refusal
    if "text/html" in request.headers.get("Accept", ""):
        return HttpResponseRedirect("/ui/")
    try:
        cluster = ClusterInfo.objects.values_list("kafka_cluster_id", flat=True).first() or ""
    except DatabaseError:
        cluster = ""
    return JsonResponse({"version": CONNECT_VERSION, "commit": f"ringfence-{__version__}", "kafka_cluster_id": cluster})


class _Cache:
    """The last answer, shared by the process: probes may be frequent, and each would query the leader."""

    def __init__(self) -> None:
        self.until = 0.0
        self.answer = (503, "starting", "")
        self.attention: int | None = None
        self.was_healthy = False
        self.asking = threading.Lock()


_cache = _Cache()


class _ReadyCache:
    """The same for `/health/ready`."""

    def __init__(self) -> None:
        self.until = 0.0
        self.checks: list[dict[str, object]] = []
        self.asking = threading.Lock()


_ready_cache = _ReadyCache()


def health() -> tuple[int, str, str]:
    """Return (HTTP status, status, message): 200 only if the leader answers a ping, and the database answers and
    follows Kafka (KIP-1017).
    """
    # One request asks the leader; others have the last answer, and wait in no thread for the next one.
    if time.monotonic() < _cache.until or not _cache.asking.acquire(blocking=False):
        return _cache.answer
    try:
        return _ask_for_health()
    finally:
        _cache.asking.release()


def _ask_for_health() -> tuple[int, str, str]:
    missing, lost = _missing()
    _cache.attention = None
    if lost:
        _cache.answer = (500, "unhealthy", missing)
    elif not missing:
        _cache.was_healthy = True
        _cache.answer = (200, "healthy", "Worker has completed startup and is ready to handle requests.")
        _cache.attention = count_attention(Connector.objects.filter(known=True), known_health())
    elif _cache.was_healthy:
        _cache.answer = (500, "unhealthy", missing)
    else:
        _cache.answer = (503, "starting", missing)
    _cache.until = time.monotonic() + _CACHED_SECONDS
    return _cache.answer


def _missing() -> tuple[str, bool]:
    """Return what is missing, "" for nothing, and whether that is a lost topic, which a start does not wait for."""
    try:
        lost = cluster_topics.find_lost()
    except DatabaseError as error:
        return f"The database does not answer: {type(error).__name__}.", False
    if lost is not None:
        return lost.reason, True
    try:
        dispatch.command(Ping(), timeout=_PING_SECONDS)
    except Refusal as refused:
        return f"No leader answers yet. {refused.message}", False
    return _standstill(), False


def _standstill() -> str:
    """Return that the projection stands still, since when and why; "" if it does not. Commands wait for it in vain."""
    vitals = look.vitals()
    if not vitals.stale:
        return ""
    text = next((f"{each.text} {each.remedy}" for each in vitals.problems if each.grave), "")
    return text or f"The database has not followed Kafka for {vitals.behind_s} s."


def dependencies() -> list[dict[str, object]]:
    """Return what this web process needs to answer (`required`), and what it can temporarily do without."""
    return [
        {"name": "database", "ok": _database_answers(), "required": True},
        {"name": "redis", "ok": _redis_answers(), "required": False},
        _projection(),
    ]


def _projection() -> dict[str, object]:
    """Return whether the database follows Kafka, and if not, for how long. Pages can be read without."""
    vitals = look.vitals()
    behind = {"behind_s": vitals.behind_s, "message": _standstill()} if vitals.stale else {}
    return {"name": "projection", "ok": not vitals.stale, "required": False, **behind}


def _database_answers() -> bool:
    try:
        ClusterInfo.objects.exists()
    except DatabaseError:
        return False
    return True


def _redis_answers() -> bool:
    try:
        redis_clock.now()
    except RedisError:
        return False
    return True


class Live(ConnectView):
    """This process answers requests. For a liveness probe, which restarts the process if it does not."""

    access = {"GET": PUBLIC}

    def get(self, request: Request) -> Response:
        return Response({"status": "alive"})


class Ready(ConnectView):
    """Requests may be sent here. For a readiness probe and load balancers. `?verbose=true` adds the cluster's health
    (`GET /health`), which does not affect the result, because every web process would report the same.
    """

    access = {"GET": PUBLIC}

    def get(self, request: Request) -> Response:
        with _ready_cache.asking:
            if time.monotonic() >= _ready_cache.until:
                _ready_cache.checks, _ready_cache.until = dependencies(), time.monotonic() + _CACHED_SECONDS
            checks = list(_ready_cache.checks)
        ready = all(one["ok"] for one in checks if one["required"])
        if self.flag("verbose"):
            checks.append({"name": "cluster", "ok": health()[0] == 200, "required": False})
        body = {"status": "ready" if ready else "not ready", "dependencies": checks}
        return Response(body, status=200 if ready else 503)


class Health(ConnectView):
    """`connectors_need_attention`: how many do; their state does not change the status, since no restart of a worker
    would help them.
    """

    access = {"GET": PUBLIC}

    def get(self, request: Request) -> Response:
        code, status, message = health()
        body: dict[str, object] = {"status": status, "message": message}
        if _cache.attention is not None:
            body["connectors_need_attention"] = _cache.attention
        return Response(body, status=code)
