"""Requests are answered by a pool of threads; an open stream holds none of them."""

import asyncio
import threading
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from django.db import connections
from django.http import HttpRequest, HttpResponse
from django.test import override_settings
from django.urls import path

from ringfence import quotas
from ringfence.access.authorise import requires, somewhere
from ringfence.access.principal import Verb
from ringfence.metrics import views as metrics_views
from ringfence.quotas import QueuedLane
from ringfence.web import asgi_handler as handler
from ringfence.web.asgi_handler import PooledHandler
from ringfence.web.live import streams as live

_PATIENCE = 20.0


class Asked:
    """One request to the application. `gone`: set when the reader leaves."""

    def __init__(self, application: PooledHandler, path: str) -> None:
        self.gone = asyncio.Event()
        self.told = asyncio.Event()
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = b""
        self._begun = False
        path, _, query = path.partition("?")
        scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
        }
        scope |= {"path": path, "raw_path": path.encode(), "root_path": "", "query_string": query.encode()}
        scope |= {"headers": [(b"host", b"localhost")], "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80)}
        self.done = asyncio.create_task(application(scope, self._receive, self._send))

    async def _receive(self) -> dict[str, Any]:
        if not self._begun:
            self._begun = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {key.decode().lower(): value.decode() for key, value in message["headers"]}
        elif message.get("body"):
            self.body += message["body"]
            self.told.set()


def run(what: Callable[[PooledHandler], Awaitable[None]]) -> None:
    async def within() -> None:
        async with asyncio.timeout(_PATIENCE):
            application = PooledHandler()
            await what(application)
            # The connections of its threads are theirs alone to close.
            await asyncio.gather(*(application.in_thread(connections.close_all) for _ in range(handler.THREADS)))

    asyncio.run(within())


def test_open_streams_hold_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handler, "THREADS", 2)

    async def more_streams_than_threads(application: PooledHandler) -> None:
        streams = [Asked(application, "/ui/events") for _ in range(5)]
        for stream in streams:
            await stream.told.wait()
        page = Asked(application, "/ui/workers")
        await page.done
        assert page.status == 200
        assert b"<h1>Workers</h1>" in page.body
        for stream in streams:
            assert stream.body.startswith(b"retry:")
            assert not stream.done.done()
            stream.gone.set()
            await stream.done

    run(more_streams_than_threads)


def test_a_stream_ends_with_its_reader() -> None:
    async def come_and_go(application: PooledHandler) -> None:
        stream = Asked(application, "/ui/events?connector=flights")
        await stream.told.wait()
        assert stream.headers["content-type"] == "text/event-stream"
        assert len(live.hub()) == 1
        stream.gone.set()
        await stream.done
        assert len(live.hub()) == 0

    run(come_and_go)


def test_files_come_whole() -> None:
    async def fetch(application: PooledHandler) -> None:
        file = Asked(application, "/static/ringfence/live.js")
        await file.done
        assert file.status == 200
        assert file.headers["content-type"].startswith("text/javascript")
        assert int(file.headers["content-length"]) == len(file.body) > 1000

    run(fetch)


def test_scrapes_stop_no_probe_and_no_other_scrape(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exposition of many connectors takes a while. One account asks for it again and again."""
    going_on = threading.Event()

    def write_slowly(*_: object) -> str:
        assert going_on.wait(_PATIENCE)
        return "a 1\n"

    monkeypatch.setattr(metrics_views, "exposition", write_slowly)

    async def scrape(application: PooledHandler) -> None:
        scrapes = [Asked(application, "/metrics?names=confluent") for _ in range(40)]
        probe = Asked(application, "/health/ready")
        await probe.done
        assert probe.status in (200, 503)
        while sum(each.done.done() for each in scrapes) < 38:
            await asyncio.sleep(0.02)
        going_on.set()
        for each in scrapes:
            await each.done
        assert Counter(each.status for each in scrapes) == {429: 38, 200: 2}

    run(scrape)


_going_on = threading.Event()
_reading: Counter[str] = Counter()


@requires(GET=somewhere(Verb.VIEW))
def read_slowly(request: HttpRequest) -> HttpResponse:
    _reading["now"] += 1
    _reading["most"] = max(_reading["most"], _reading["now"])
    assert _going_on.wait(_PATIENCE)
    _reading["now"] -= 1
    return HttpResponse("read")


urlpatterns = [path("slow", read_slowly)]


@override_settings(ROOT_URLCONF=__name__)
def test_who_waits_for_a_place_to_read_holds_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """As two hundred pages of one account do that are told of a change at the same moment: all of them are answered."""
    lane = QueuedLane("requests", each=3, together=5)
    monkeypatch.setattr(quotas, "READING", lane)
    _going_on.clear()
    _reading.clear()

    async def read(application: PooledHandler) -> None:
        reads = [Asked(application, "/slow") for _ in range(100)]
        while sum(len(line) for line in lane._lines.values()) < 97:
            await asyncio.sleep(0.02)
        assert _reading["now"] == 3
        await asyncio.gather(*(application.in_thread(int) for _ in range(4)))
        _going_on.set()
        for each in reads:
            await each.done
        assert Counter(each.status for each in reads) == {200: 100}
        assert _reading["most"] <= 3
        assert not lane._running
        assert not lane._lines

    run(read)


@override_settings(ROOT_URLCONF=__name__)
def test_a_read_without_a_place_is_refused_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    lane = QueuedLane("requests", each=1, together=2)
    monkeypatch.setattr(quotas, "READING", lane)
    monkeypatch.setattr(quotas, "READING_PATIENCE", 0.2)
    _going_on.clear()

    async def read(application: PooledHandler) -> None:
        first = Asked(application, "/slow")
        while not lane._running:
            await asyncio.sleep(0.02)
        second = Asked(application, "/slow")
        await second.done
        assert second.status == 429
        assert "retry-after" in second.headers
        _going_on.set()
        await first.done
        assert first.status == 200
        assert not lane._running

    run(read)
