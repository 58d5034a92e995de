"""What a web process counts of its own requests."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from ringfence.metrics.text import render
from ringfence.metrics.web_process import BUCKETS, RequestCounts, area_of


def scope(path: str) -> Mapping[str, Any]:
    return {"path": path, "root_path": ""}


def answer(counts: RequestCounts, path: str, status: int) -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def run() -> None:
        with counts.measure(scope(path), send) as counted:
            await counted({"type": "http.response.start", "status": status})
            await counted({"type": "http.response.body", "body": b""})

    asyncio.run(run())
    assert len(sent) == 2


def samples(counts: RequestCounts) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(render(counts.families()))
        for sample in family.samples
    }


def test_requests_are_counted_by_area_and_status() -> None:
    counts = RequestCounts()
    before = samples(counts)
    assert before["ringfence_http_requests_total", (("area", "api"), ("status", "503"))] == 0  # so that it can increase
    answer(counts, "/connectors", 200)
    answer(counts, "/connectors", 409)
    answer(counts, "/connectors", 200)
    answer(counts, "/api/v1/workers", 503)
    found = samples(counts)
    total = "ringfence_http_requests_total"
    assert found[total, (("area", "connect-api"), ("status", "409"))] == 1
    assert found[total, (("area", "connect-api"), ("status", "200"))] == 2
    assert found[total, (("area", "api"), ("status", "503"))] == 1
    assert found["ringfence_http_request_duration_seconds_count", (("area", "connect-api"),)] == 3
    assert found["ringfence_http_request_duration_seconds_bucket", (("area", "api"), ("le", "+Inf"))] == 1
    assert found["ringfence_http_requests_in_progress", ()] == 0


def test_a_request_without_an_answer_is_no_longer_in_progress() -> None:
    counts = RequestCounts()

    async def send(message: Any) -> None:
        raise AssertionError(message)

    def leave() -> None:
        with counts.measure(scope("/ui/"), send):
            assert samples(counts)["ringfence_http_requests_in_progress", ()] == 1
            raise ConnectionError

    with pytest.raises(ConnectionError):
        leave()
    found = samples(counts)
    assert found["ringfence_http_requests_in_progress", ()] == 0
    assert not [count for (name, _), count in found.items() if name == "ringfence_http_requests_total" and count]


def test_an_open_event_stream_is_answered() -> None:
    counts = RequestCounts()

    async def send(message: Any) -> None:
        pass

    async def run() -> None:
        with counts.measure(scope("/ui/events"), send) as counted:
            await counted({"type": "http.response.start", "status": 200})
            assert samples(counts)["ringfence_http_requests_in_progress", ()] == 0

    asyncio.run(run())


@given(st.text())
def test_any_path_is_of_a_known_area(path: str) -> None:
    areas = {"connect-api", "api", "pages", "console", "hooks", "static", "probes"}
    assert area_of(path) in areas
    assert area_of("/api/v1/" + path) == "api"


def test_the_buckets_grow() -> None:
    assert list(BUCKETS) == sorted(set(BUCKETS))
