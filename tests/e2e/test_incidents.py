"""A connector that fails through automatic restarts: one incident, told once and on time, until records flow."""

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from ringfence.local.ports import free_port
from tests.e2e.rest import Json
from tests.e2e.up import Up
from tests.support.names import unique
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow

RULE_SECONDS = 12
"""Longer than the pause before the first automatic restart: whoever starts counting again with it is late."""
LATE_SECONDS = 20
"""Rules are looked at every five seconds, Celery sends, and this machine may be busy."""


class Inbox:
    """A webhook's other end."""

    def __init__(self) -> None:
        self.got: list[tuple[float, Json]] = []
        inbox = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                inbox.got.append((time.time() * 1000, body))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", free_port()), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def about(self, connector: str) -> list[str]:
        """What was sent about it, in order."""
        return [body["what"] for _, body in self.got if body["connector"] == connector]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def inbox() -> Iterator[Inbox]:
    made = Inbox()
    yield made
    made.close()


@pytest.fixture
def alerting(tmp_path: Path) -> Iterator[Up]:
    """A platform that may send to this machine."""
    with Up(tmp_path / "platform", settings={"RINGFENCE_ALERTS_LOOPBACK": "1"}) as up:
        yield up


def fail(up: Up, folder: Path) -> tuple[str, Json]:
    """A connector that meets a line that is no number, again with each restart; its name and configuration."""
    name = unique("fails")
    lines = folder / f"{name}.txt"
    lines.write_text("1\n2\nno number\n4\n")
    config = {
        "connector.class": "FileStreamSource",
        "topic": name,
        "file": str(lines),
        "transforms": "number",
        "transforms.number.type": "Cast$Value",
        "transforms.number.spec": "int64",
    }
    up.rest.create(name, config)
    return name, config


def incidents(up: Up, connector: str) -> list[Json]:
    """Of the test's own rule."""
    found = up.rest.expect(200, "GET", f"/api/v1/alerts/incidents?connector={connector}")["results"]
    return [one for one in found if one["rule"] == "test"]


@pytest.mark.timeout(600)
def test_one_incident_from_the_first_failure_until_records_flow(alerting: Up, inbox: Inbox, tmp_path: Path) -> None:
    rest = alerting.rest
    hook = {"name": "hook", "kind": "webhook", "url": inbox.url, "secret": "s" * 24, "recipients": [], "enabled": True}
    rest.expect(201, "POST", "/api/v1/alerts/destinations", hook)
    rule = {"name": "test", "kind": "failed", "pattern": "fails*", "seconds": RULE_SECONDS, "enabled": True}
    rest.expect(201, "POST", "/api/v1/alerts/rules", {**rule, "destinations": ["hook"]})
    loud, config = fail(alerting, tmp_path)
    eventually(lambda: inbox.about(loud), 90, "the first notice", pause=0.2)
    told_ms, notice = inbox.got[0]
    assert RULE_SECONDS * 1000 <= told_ms - notice["began_ms"] <= (RULE_SECONDS + LATE_SECONDS) * 1000
    assert "no number" not in notice["summary"]  # values of records are nobody's business there

    quiet, _ = fail(alerting, tmp_path)
    silence = {"connector": quiet, "hours": 1, "reason": "it is known"}
    silenced = rest.expect(201, "POST", "/api/v1/alerts/silences", silence)
    (open_one,) = incidents(alerting, loud)
    rest.expect(200, "POST", f"/api/v1/alerts/incidents/{open_one['id']}/acknowledgement")

    def failures() -> int:
        (one,) = incidents(alerting, loud)
        assert one["resolved_ms"] == 0
        return int(one["failures"])

    eventually(lambda: failures() >= 3, 150, "two automatic restarts", pause=0.5)
    assert inbox.about(loud) == ["firing"]
    eventually(lambda: incidents(alerting, quiet), 60, "the silenced one's incident", pause=0.5)
    assert incidents(alerting, quiet)[0]["withheld"]
    assert inbox.about(quiet) == []
    rest.expect(204, "DELETE", f"/api/v1/alerts/silences/{silenced['id']}")
    eventually(lambda: inbox.about(quiet) == ["firing"], 30, "what the silence held back", pause=0.2)

    assert rest.expect(200, "GET", f"/connectors/{loud}/offsets") == {"offsets": []}
    rest.settled(200, "PUT", f"/connectors/{loud}/config", {**config, "errors.tolerance": "all"})
    eventually(lambda: inbox.about(loud) == ["firing", "resolved"], 90, lambda: str(inbox.about(loud)), pause=0.2)
    (offset,) = rest.expect(200, "GET", f"/connectors/{loud}/offsets")["offsets"]
    assert offset["offset"]["position"] > 0
    (closed,) = incidents(alerting, loud)
    assert closed["resolved_ms"] > closed["began_ms"]
    assert closed["acknowledged_ms"] > 0

    rest.settled(204, "PUT", f"/connectors/{quiet}/stop")  # at rest, since somebody wants it so
    eventually(lambda: inbox.about(quiet) == ["firing", "resolved"], 60, lambda: str(inbox.about(quiet)), pause=0.2)
