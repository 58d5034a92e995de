"""The access log: one line a request, with an id, and without what is nobody's business."""

import asyncio
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connections
from django.test import override_settings

from ringfence.audit.models import AuditEntry
from ringfence.log_format import FIELDS, JsonFormatter, TextFormatter
from ringfence.web import access_log
from ringfence.web import asgi_handler as handler
from ringfence.web.asgi_handler import PooledHandler

_PATIENCE = 20.0
_TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Lines(logging.Handler):
    """Formats each line where it is logged, since it is the thread's context that counts."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.objects: list[dict[str, Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(TextFormatter().format(record))
        self.objects.append(json.loads(JsonFormatter().format(record)))


@pytest.fixture
def lines() -> Iterator[Lines]:
    listening = Lines()
    level = access_log.log.level
    access_log.log.addHandler(listening)
    access_log.log.setLevel(logging.INFO)
    yield listening
    access_log.log.removeHandler(listening)
    access_log.log.setLevel(level)


def send(path: str, *, method: str = "GET", until: bytes = b"", leave: bool = False, **headers: str) -> dict[str, str]:
    """Send one request; return the headers of its answer. until: leave an open stream when it has sent this."""
    raw, _, query = path.partition("?")
    answered: dict[str, str] = {}

    async def ask() -> None:
        application, gone = PooledHandler(), asyncio.Event()
        scope: dict[str, Any] = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "http"}
        named = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
        scope |= {
            "method": method,
            "path": raw,
            "raw_path": raw.encode(),
            "root_path": "",
            "query_string": query.encode(),
        }
        scope |= {"headers": [(b"host", b"localhost"), *named], "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80)}
        begun = False

        async def receive() -> dict[str, Any]:
            nonlocal begun
            if not begun and not leave:
                begun = True
                return {"type": "http.request", "body": b"", "more_body": False}
            if not leave:
                await gone.wait()
            return {"type": "http.disconnect"}

        async def take(message: Any) -> None:
            if message["type"] == "http.response.start":
                answered.update({key.decode().lower(): value.decode() for key, value in message["headers"]})
                answered["status"] = str(message["status"])
            elif until and until in message.get("body", b""):
                gone.set()

        async with asyncio.timeout(_PATIENCE):
            await application(scope, receive, take)
            await asyncio.gather(*(application.in_thread(connections.close_all) for _ in range(handler.THREADS)))

    asyncio.run(ask())
    return answered


def test_an_answer_has_the_id_of_its_line(lines: Lines) -> None:
    answer = send("/ui/workers?token=secret-of-the-query")
    (line,), (text,) = lines.objects, lines.texts
    assert answer["x-request-id"] == line["request_id"]
    assert (line["method"], line["path"]) == ("GET", "/ui/workers")
    assert line["status"] == 200
    assert line["account"] == "loopback"  # without a login, an account would stand there
    assert line["address"] == "127.0.0.1"
    assert 0 < line["ms"] <= line["total_ms"]
    assert line["bytes"] > 1000
    assert text.endswith(f"request={line['request_id']}")
    assert "secret-of-the-query" not in text + json.dumps(line)


def test_the_senders_id_is_taken_if_it_is_sane(lines: Lines) -> None:
    assert send("/ui/workers", x_request_id="deploy-17", traceparent=_TRACE)["x-request-id"] == "deploy-17"
    assert lines.objects[-1]["request_id"] == "deploy-17"
    assert lines.objects[-1]["trace_id"] == _TRACE.split("-")[1]
    for forged in ('a" b', "x" * 101, "1 request=2"):
        made = send("/ui/workers", x_request_id=forged)["x-request-id"]
        assert made != forged
        assert made.isalnum()


def test_a_path_cannot_forge_a_line(lines: Lines) -> None:
    send("/connectors/a\nINFO: forged", x_request_id="one")
    (text,) = lines.texts
    assert "\n" not in text
    assert "a%0AINFO:%20forged" in text


def test_a_stream_has_a_line_when_it_opens_and_one_when_it_ends(lines: Lines) -> None:
    send("/ui/events", until=b"retry:")
    assert [line["outcome"] for line in lines.objects] == ["opened", "closed"]
    assert len({line["request_id"] for line in lines.objects}) == 1
    assert lines.objects[1]["total_ms"] >= lines.objects[1]["ms"]


def test_a_sender_that_leaves_first_got_no_status(lines: Lines) -> None:
    send("/connectors", method="POST", leave=True, content_length="10")
    (line,) = lines.objects
    assert line["status"] is None
    assert line["outcome"] == "no answer: the sender left"


def test_probes_and_static_files_are_left_out_unless_asked_for(lines: Lines) -> None:
    send("/metrics")
    send("/static/nothing.css")
    assert lines.objects == []
    access_log.log.setLevel(logging.DEBUG)
    send("/metrics")
    assert [line["path"] for line in lines.objects] == ["/metrics"]


def test_it_can_be_turned_off(lines: Lines) -> None:
    with override_settings(ACCESS_LOG=False):
        assert send("/ui/workers", x_request_id="quiet")["x-request-id"] == "quiet"
    assert lines.objects == []


def test_the_audit_trail_has_the_id() -> None:
    send("/connectors/none/pause", method="PUT", x_request_id="deploy-18")
    (entry,) = AuditEntry.objects.all()
    assert entry.request_id == "deploy-18"


def test_more_fields_stand_in_json_alone() -> None:
    record = logging.LogRecord("a.b", logging.ERROR, __file__, 1, "no %s\nline", ("second",), None)
    setattr(record, FIELDS, {"status": 500})
    line = json.loads(JsonFormatter(lambda text: text.replace("second", "***")).format(record))
    assert line["message"] == "no ***\nline"
    assert (line["level"], line["logger"], line["status"]) == ("ERROR", "a.b", 500)
    assert line["time"].endswith("Z")
