"""What one web process measures about itself: its requests, and what it uses of the machine.

All other metrics are the cluster's, the same from every web process.
"""

import os
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from ringfence.metrics.text import Families, Family, Kind, Sample, labels, number

BUCKETS: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Seconds."""
_AREAS: Final = (
    ("/hooks/", "hooks"),
    ("/static/", "static"),
    ("/ui", "pages"),
    ("/docs", "pages"),
    ("/console", "console"),
    ("/health", "probes"),
    ("/metrics", "probes"),
    ("/api/", "api"),
)
_FIRST: Final = {(area, status): 0 for area in ("connect-api", "api", "pages", "console") for status in (200, 500, 503)}
"""Series that are there from the start: Prometheus sees no increase in one that begins with the first error."""
_BEGAN: Final = time.time()

Send = Callable[[Any], Awaitable[None]]


def area_of(path: str) -> str:
    """Return the part of the site that a path belongs to; what is in no other part is Kafka Connect's API."""
    return next((area for prefix, area in _AREAS if path.startswith(prefix)), "connect-api")


class RequestCounts:
    """Counts requests, by the time until their answer begins: an event stream is open for as long as its page.

    Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open = 0
        self._answered: Counter[tuple[str, int]] = Counter(_FIRST)
        self._buckets: Counter[tuple[str, int]] = Counter()
        self._seconds: dict[str, float] = {}

    @contextmanager
    def measure(self, scope: Mapping[str, Any], send: Send) -> Iterator[Send]:
        """Give a `send` to answer this request with. One that is never answered (its client left) is not counted."""
        began = time.monotonic()
        waits = True
        with self._lock:
            self._open += 1

        async def count_and_send(message: Any) -> None:
            nonlocal waits
            if waits and message["type"] == "http.response.start":
                waits = False
                self._count(scope, int(message["status"]), time.monotonic() - began)
            await send(message)

        try:
            yield count_and_send
        finally:
            if waits:
                with self._lock:
                    self._open -= 1

    def _count(self, scope: Mapping[str, Any], status: int, seconds: float) -> None:
        area = area_of(str(scope["path"]).removeprefix(str(scope.get("root_path", ""))))
        place = next((place for place, most in enumerate(BUCKETS) if seconds <= most), len(BUCKETS))
        with self._lock:
            self._open -= 1
            self._answered[area, status] += 1
            self._buckets[area, place] += 1
            self._seconds[area] = self._seconds.get(area, 0.0) + seconds

    def families(self) -> Families:
        with self._lock:
            answered, buckets, seconds = dict(self._answered), Counter(self._buckets), dict(self._seconds)
            waiting = self._open
        durations: list[Sample] = []
        for area, total in sorted(seconds.items()):
            below = 0
            for place, most in enumerate((*BUCKETS, float("inf"))):
                below += buckets[area, place]
                le = "+Inf" if place == len(BUCKETS) else number(most)
                durations.append(("_bucket" + labels({"area": area, "le": le}), below))
            durations += [("_sum" + labels({"area": area}), total), ("_count" + labels({"area": area}), below)]
        return [
            (
                Family(
                    "ringfence_http_requests_total",
                    Kind.COUNTER,
                    "Requests that this web process has answered, by the part of the site.",
                    "those with a status of 500 and above grow",
                ),
                [
                    (labels({"area": area, "status": status}), count)
                    for (area, status), count in sorted(answered.items())
                ],
            ),
            (
                Family(
                    "ringfence_http_request_duration_seconds",
                    Kind.HISTOGRAM,
                    "How long this web process took until an answer began.",
                    "it grows: the database, the leader or the machine is slow",
                ),
                durations,
            ),
            (
                Family(
                    "ringfence_http_requests_in_progress",
                    Kind.GAUGE,
                    "Requests whose answer this web process has not begun.",
                    "it comes near 128, the most that it answers at once",
                ),
                [("", waiting)],
            ),
        ]


requests = RequestCounts()


def families() -> Families:
    """Return the families of this process. Memory and files are known on Linux only."""
    return [*requests.families(), *_process()]


def _process() -> Families:
    """The names and meanings are those of Prometheus' client libraries."""
    values: list[tuple[str, Kind, str, str, float | None]] = [
        ("cpu_seconds_total", Kind.COUNTER, "CPU time of this web process.", "", time.process_time()),
        ("start_time_seconds", Kind.GAUGE, "When this web process began, seconds since the epoch.", "", _BEGAN),
        ("resident_memory_bytes", Kind.GAUGE, "Memory of this web process.", "it grows for days", _memory()),
        ("open_fds", Kind.GAUGE, "Open files of this web process.", "it comes near the limit (ulimit -n)", _files()),
    ]
    return [
        (Family(f"process_{name}", kind, meaning, bad), [] if value is None else [("", value)])
        for name, kind, meaning, bad, value in values
    ]


def _memory() -> float | None:
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except FileNotFoundError:
        return None


def _files() -> float | None:
    try:
        return len(os.listdir("/proc/self/fd"))
    except FileNotFoundError:
        return None
