"""The Tasks tab and traces: why a task failed, in words, and what comes next."""

import json
import os
import re
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from ringfence.alerts.conditions import last_error
from ringfence.alerts.root_causes import cause_of, group_traces
from ringfence.fencing.topics.status import FAILED, MISCONFIGURED, State
from ringfence.projection.models import Event
from tests.support.leader import FakeLeader
from tests.support.pages import text
from tests.support.topics import connector

TAB = "/ui/connectors/flights/tasks"


def trace_of(run: Any) -> str:
    """A real trace, as a task reports it."""
    import traceback

    try:
        run()
    except Exception as error:
        return "".join(traceback.format_exception(error)).rstrip()
    raise AssertionError


def refused() -> None:
    try:
        raise ConnectionRefusedError("nobody listens on db:5432")
    except OSError as error:
        raise RuntimeError("the table cannot be read\nat all") from error


def stumbled() -> None:
    try:
        raise KeyError("x")
    except KeyError:
        raise ValueError("the setting x is missing")  # noqa: B904 - told during another one's handling


JAVA = "org.x.ConnectException: wrapped\n\tat a.B.c(B.java:1)\nCaused by: java.net.ConnectException: no"


@pytest.mark.parametrize(
    ("trace", "words", "name", "said_as", "hinted"),
    [
        (trace_of(refused), "nobody listens on db:5432", "ConnectionRefusedError", True, "check address"),
        (trace_of(stumbled), "the setting x is missing", "ValueError", False, "The plugin's code has failed"),
        (
            trace_of(lambda: os.stat("/nowhere/x")),
            "[Errno 2] No such file",
            "FileNotFoundError",
            False,
            "machine of the",
        ),
        (JAVA, "no", "java.net.ConnectException", True, ""),
        ("no trace, only words", "no trace, only words", "", False, ""),
        ("Fatal: TOPIC_AUTHORIZATION_FAILED", "TOPIC_AUTH", "Fatal", False, "permissions"),
        ("", "", "", False, ""),
    ],
)
def test_the_root_cause_of_a_trace(trace: str, words: str, name: str, said_as: bool, hinted: str) -> None:
    cause = cause_of(trace)
    assert cause.text.startswith(words)
    assert cause.name == name
    assert bool(cause.said_as) is said_as
    assert hinted in cause.hint
    assert not cause.reported.startswith(("RuntimeError", "org.x"))


CRASH = """The task's process crashed. Fatal Python error: Segmentation fault

Current thread 0x00007f (most recent call first):
  File "/data/environments/crashy/task.py", line 36 in poll
  File "/x/driver.py", line 9 in run

Extension modules: psutil._psutil_linux, confluent_kafka.cimpl (total: 2)"""


@pytest.mark.parametrize(
    ("trace", "headline"),
    [
        (CRASH, "The task's process crashed: segmentation fault in task.py, line 36"),
        (trace_of(lambda: dict[str, int]()["id"]), "The key 'id' is missing"),
        (trace_of(lambda: os.stat("/nowhere/x")), "No such file or directory: '/nowhere/x'"),
        ("java.lang.NullPointerException", "It failed without a message (NullPointerException)"),
        (JAVA, "no"),
    ],
)
def test_a_headline_has_no_class_path_or_module(trace: str, headline: str) -> None:
    assert cause_of(trace).headline == headline
    assert cause_of(trace).headline in (last_error(trace), "no")


def test_equal_traces_are_one_failure_the_most_frequent_first() -> None:
    found = group_traces([(0, "A: x"), (1, "B: y"), (2, "B: y")])
    assert [failure.tasks for failure in found] == [(1, 2), (0,)]


@pytest.fixture
def flights(leader: FakeLeader) -> FakeLeader:
    leader.config.config(connector("flights", topic="t", pin="hunter22"))
    leader.start("flights", tasks=3)
    return leader


def test_each_task_says_how_it_is_and_when_it_starts_again(client: Client, flights: FakeLeader) -> None:
    trace = "Traceback\n  File x\nConnectionError: no route with hunter22"
    flights.report("flights", 0, State.FAILED, trace=trace, why=FAILED, restarts=1, next_ms=1_700_000_000_000)
    flights.report("flights", 1, State.FAILED, trace="ConfigException: bad", why=MISCONFIGURED)
    body = json.dumps({"stage": "failed", "attempt": 4, "worker": "w2", "message": "hunter22 again"})
    Event.objects.create(connector="flights", task=0, type="task", time_ms=5, body=body)
    page = text(client.get(TAB))
    assert '22:13:20 UTC" data-local="clock">22:13:20</time> <span class="muted">(restart 2 in a row)' in page
    assert "not automatically: the configuration is invalid" in page
    assert "<b>no route with [hidden]</b> <code>ConnectionError</code>" in page
    assert "Task 0, attempt 4 on w2: failed: [hidden] again" in page
    assert page.count('data-copy="trace-') == 2
    assert len(re.findall(r'id="restart-\d', page)) == 3
    assert "hunter22" not in page
    assert client.post(f"{TAB}/2/restart", headers={"hx-request": "true"}).status_code == 200
    assert flights.asked[-1] == ("restart_task", "flights", {"task": 2})


def test_many_tasks_come_in_pages_at_the_same_cost(client: Client, flights: FakeLeader) -> None:
    with CaptureQueriesContext(connection) as few:
        client.get(TAB)
    flights.config.config(connector("wide"))
    flights.start("wide", tasks=120)
    with CaptureQueriesContext(connection) as many:
        page = text(client.get("/ui/connectors/wide/tasks"))
    assert len(many) <= len(few)
    assert len(re.findall(r'id="restart-\d', page)) == 100
    assert 'href="?page=2"' in page
