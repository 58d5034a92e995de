"""Logs of a connector: lines are kept in bounds, shown by level and task, paged, without secrets; levels end."""

import re
import time

import pytest
from django.test import Client

from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.topics.config_records import decode, encode
from ringfence.fencing.topics.connector_logs import ConnectorLevelRecord
from ringfence.projection import event_rows
from ringfence.projection.models import Connector, Event, LogLine
from ringfence.projection.projector import Projection
from tests.support.leader import FakeLeader
from tests.support.pages import text
from tests.support.topics import Topic, connector

FRAGMENT = {"hx-request": "true"}
TAB = "/ui/connectors/flights/logs"
API = "/api/v1/connectors/flights/logs"
JSON = "application/json"


@pytest.fixture
def flights(leader: FakeLeader) -> FakeLeader:
    leader.config.config(connector("flights", topic="t", pin="hunter22"))
    leader.start("flights")
    return leader


def logged(*lines: tuple[str, int | None, str]) -> None:
    """(level, task, message) of each line, projected."""
    events = Topic()
    for level, task, message in lines:
        tags = {} if task is None else {"task": task, "generation": 7, "attempt": 2, "worker": "w1"}
        events.event(type="log", connector="flights", level=level, logger="my.plugin", message=message, **tags)
    Projection("events", "events", str(time.time_ns())).apply(events.records, events.end)


def test_lines_are_shown_by_level_task_and_text(client: Client, flights: FakeLeader) -> None:
    logged(("INFO", 0, "one"), ("ERROR", 1, "two <b> hunter22"), ("WARN", None, "three"), ("DEBUG", 0, "four"))
    page = text(client.get(TAB))
    assert page.index("four") < page.index("three") < page.index("two &lt;b&gt; [hidden]") < page.index(">one<")
    assert "hunter22" not in page
    assert "generation 7, attempt 2" in page
    assert Event.objects.filter(type="log").count() == 0
    shown = {
        "level=WARN": {"two", "three"},
        "task=0": {"one", "four"},
        "q=ONE": {"one"},
        "level=INFO&task=0": {"one"},
        "level=x&task=y&page=z": {"one", "two", "three", "four"},
    }
    for query, wanted in shown.items():
        part = text(client.get(f"{TAB}?{query}", headers={**FRAGMENT, "hx-target": "log-lines"}))
        assert {word for word in ("one", "two", "three", "four") if f'log-text">{word}' in part} == wanted, query
        assert "<form" not in part


def test_the_api_lists_them_the_same_way(client: Client, flights: FakeLeader) -> None:
    logged(("INFO", 0, "one"), ("ERROR", 1, "two hunter22"), ("WARN", None, "three"))
    body = client.get(API).json()
    assert [(row["message"], row["task"]) for row in body["results"]] == [
        ("three", -1), ("two [hidden]", 1), ("one", 0),
    ]  # fmt: skip
    assert [row["message"] for row in client.get(f"{API}?level=warn&limit=1").json()["results"]] == ["three"]
    assert client.get(f"{API}?level=loud").status_code == 400
    assert client.get(f"{API}?since=2").json()["count"] == 3
    assert client.get(f"{API}?since={10**13}").json()["count"] == 0
    assert client.get("/api/v1/connectors/nobody/logs").status_code == 404


def test_only_the_newest_are_kept(flights: FakeLeader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_rows, "KEPT_LINES", 5)
    monkeypatch.setattr(event_rows, "_LINES_SLACK", 2)
    LogLine.objects.create(connector="other", time_ms=1, level="INFO", severity=20)
    for number in range(20):
        logged(("INFO", 0, f"line {number}"))
        assert LogLine.objects.filter(connector="flights").count() <= 7
    newest = LogLine.objects.filter(connector="flights").order_by("-id").values_list("message", flat=True)
    assert list(newest)[:5] == [f"line {number}" for number in range(19, 14, -1)]
    assert LogLine.objects.filter(connector="other").count() == 1
    event_rows.prune_lines(2_000)
    assert LogLine.objects.count() == 0


def test_nonsense_in_the_topic_is_no_line_or_a_harmless_one(flights: FakeLeader) -> None:
    events = Topic()
    events.event(type="log", level="INFO", message="of nobody")
    events.event(type="log", connector="flights", level={"a": 1}, task="x", message=5)
    Projection("events", "events", "id").apply(events.records, events.end)
    line = LogLine.objects.get()
    assert (line.task, line.message, line.severity) == (-1, "", 20)


def test_a_level_is_set_for_a_while(client: Client, flights: FakeLeader) -> None:
    before = int(time.time() * 1000)
    answer = client.post(f"{TAB}/level", {"level": "DEBUG", "minutes": "15"}, headers=FRAGMENT)
    assert "After 15 minutes it returns to INFO automatically." in text(answer)
    kind, name, body = flights.asked[-1]
    assert (kind, name, body["level"]) == ("set_connector_log_level", "flights", "DEBUG")
    assert before + 15 * 60_000 <= body["until_ms"] <= before + 16 * 60_000
    flights.config.config(ConnectorLevelRecord(ConnectorName("flights"), "DEBUG", body["until_ms"]))
    flights.project()
    assert client.get("/api/v1/connectors/flights/log-level").json()["level"] == "DEBUG"
    assert "Tasks log <b>DEBUG</b>" in text(client.get(TAB))
    Connector.objects.update(log_level_until_ms=5)
    assert client.get("/api/v1/connectors/flights/log-level").json() == {"level": "INFO", "until_ms": 0}
    put = client.put("/api/v1/connectors/flights/log-level", {"level": "info"}, content_type=JSON)
    assert (put.status_code, flights.asked[-1][2]) == (200, {"level": None})


def test_a_level_that_is_none_is_refused(client: Client, flights: FakeLeader) -> None:
    for sent in ({"level": "LOUD", "minutes": "5"}, {"level": "DEBUG", "minutes": "0"}, {"level": "DEBUG"}):
        assert client.post(f"{TAB}/level", sent, headers=FRAGMENT).status_code == 400
    for body in ({}, {"level": 3}, {"level": "DEBUG", "minutes": True}, {"level": "DEBUG", "minutes": 10**6}):
        assert client.put("/api/v1/connectors/flights/log-level", body, content_type=JSON).status_code == 400
    assert flights.asked == []


@pytest.mark.parametrize("record", [("DEBUG", 5), (None, 0)])
def test_the_record_is_read_as_it_was_written(record: tuple[str | None, int]) -> None:
    made = ConnectorLevelRecord(ConnectorName("a-b"), *record)
    assert decode(*encode(made)) == made


def test_home_shows_the_lines_of_a_range_of_all_connectors_without_secrets(client: Client, flights: FakeLeader) -> None:
    flights.config.config(connector("trains", topic="t"))
    flights.project()
    times = {f"minute {minute}": minute * 60_000 for minute in (1, 5, 6, 7, 20)}
    for text_of_line, time_ms in times.items():
        name = "trains" if "6" in text_of_line else "flights"
        LogLine.objects.create(
            connector=name, time_ms=time_ms, level="INFO", severity=20, message=f"{text_of_line} hunter22", logger="x"
        )
    LogLine.objects.create(connector="gone", time_ms=360_000, level="INFO", severity=20, message="minute 6 of another")
    page = text(client.get("/ui/logs?from=300000&to=420000", headers=FRAGMENT))
    assert re.findall(r'log-text">(minute \d+)', page) == ["minute 6", "minute 5"]
    assert "hunter22 " not in page.replace("minute 6 hunter22", "")
    assert "minute 5 [hidden]" in page
    assert "/ui/connectors/trains/logs?from=300000&amp;to=420000" in page
    assert "No log lines in this range" in text(client.get("/ui/logs?from=8000000&to=9000000", headers=FRAGMENT))
    home = text(client.get("/ui/?from=300000&to=420000"))
    assert 'hx-get="/ui/logs"' in home
    assert 'hx-get="/ui/logs"' not in text(client.get("/ui/"))


def test_a_range_is_found_wherever_it_is(client: Client, flights: FakeLeader) -> None:
    lines = [
        LogLine(connector="flights", time_ms=number * 1000, level="INFO", severity=20, message=str(number))
        for number in range(500)
    ]
    LogLine.objects.bulk_create(lines)
    LogLine.objects.filter(message__in=["120", "121"]).delete()
    found = event_rows.find_range(118_000, 125_000).order_by("id").values_list("message", flat=True)
    assert list(found) == ["118", "119", "122", "123", "124"]
    assert not event_rows.find_range(900_000, 901_000).exists()
