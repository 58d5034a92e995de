"""One function decides how a connector is: the pages, the API, the metrics, `/health` and the alerts never differ."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from django.test import Client

from ringfence.alerts import evaluation
from ringfence.alerts.models import Incident, Rule
from ringfence.connectors.java.connection_trouble import PREFIX as LOGGED
from ringfence.fencing.topics.status import KAFKA, PollRetry, State
from ringfence.heartbeats.cluster_health import FormerProcess, Vitals, no_projection
from ringfence.heartbeats.cluster_view import look
from ringfence.projection.health import SEVERITY, Health, known_health
from ringfence.projection.models import Connector, Task
from tests.support.health_places import read_places
from tests.support.leader import FakeLeader
from tests.support.pages import text
from tests.support.topics import connector, task_status

NAME = "flights"
NO_NODE = "Connection to node -1 (other.example.com/10.0.0.9:9092) could not be established."


def now_ms() -> int:
    return int(time.time() * 1000)


@pytest.fixture
def flights(leader: FakeLeader) -> FakeLeader:
    leader.config.config(connector(NAME, topic="t"), connector("calm", topic="u"))
    leader.start("calm")
    leader.start(NAME)
    return leader


@pytest.fixture(autouse=True)
def vitals() -> Iterator[Callable[[Vitals], None]]:
    """Sets what is known of the workers."""

    def set_vitals(vitals: Vitals) -> None:
        look._last, look._until = vitals, time.monotonic() + 600

    yield set_vitals
    look._last = Vitals()
    look.forget()


SetVitals = Callable[[Vitals], None]


def everywhere(client: Client) -> dict[str, str]:
    def read(path: str) -> tuple[str, Any]:
        answer = client.get(path)
        return answer.content.decode(), answer.json() if path.startswith("/api") else None

    return read_places(read, NAME)


def get(client: Client, path: str) -> str:
    return text(client.get(path))


def in_motion(leader: FakeLeader, _: SetVitals) -> None:
    leader.report(NAME, 0, State.UNASSIGNED, why="reading source offsets: 5 of 20")
    Connector.objects.filter(name=NAME).update(trouble_since_ms=now_ms() - 31_000)


def refused_by_kafka(leader: FakeLeader, _: SetVitals) -> None:
    refused = PollRetry("Kafka takes no records: t-0: it does not exist", now_ms() - 61_000, 0, 0, KAFKA)
    leader.report(NAME, 0, State.RUNNING, retry=refused)


def its_plugin_logs_that_it_cannot_connect(leader: FakeLeader, _: SetVitals) -> None:
    """It raises nothing, and its `poll` returns nothing."""
    leader.report(NAME, 0, State.RUNNING, retry=PollRetry(f"{LOGGED}{NO_NODE}", now_ms() - 61_000, 6, 1))


def started_again(leader: FakeLeader, _: SetVitals) -> None:
    leader.report(NAME, 0, State.FAILED, trace="ValueError: no such table", why="failed", ended=True)
    task = Task.objects.get(connector=NAME)
    again = task_status(NAME, 0, State.RUNNING, task.generation)
    leader.status.status(replace(again, attempt=task.attempt + 1, since_ms=task.since_ms + 1))
    leader.project()


def worker_started_again(_: FakeLeader, vitals: SetVitals) -> None:
    Task.objects.update(worker="w", incarnation="first")
    Task.objects.filter(connector="calm").update(incarnation="second")
    vitals(Vitals(former_processes=(FormerProcess("w", "second", 3.0),), is_known=True))


def worker_started_again_long_ago(leader: FakeLeader, vitals: SetVitals) -> None:
    worker_started_again(leader, vitals)
    vitals(Vitals(former_processes=(FormerProcess("w", "second", 40.0),), is_known=True))


def worker_is_silent(_: FakeLeader, vitals: SetVitals) -> None:
    Task.objects.filter(connector=NAME).update(worker="w")
    vitals(Vitals(silent=frozenset({("w", "first")}), is_known=True))


def nothing_is_read(_: FakeLeader, vitals: SetVitals) -> None:
    vitals(Vitals((no_projection(now_ms() - 20_000, 20),), True, now_ms() - 20_000, 20, is_known=True))


CASES = {
    in_motion: Health.WAITING,
    refused_by_kafka: Health.RETRYING,
    its_plugin_logs_that_it_cannot_connect: Health.RETRYING,
    started_again: Health.RETRYING,
    worker_started_again: Health.STARTING,
    worker_started_again_long_ago: Health.WAITING,
    worker_is_silent: Health.UNKNOWN,
    nothing_is_read: Health.UNKNOWN,
}


@pytest.mark.parametrize(("fault", "expected"), CASES.items(), ids=lambda value: getattr(value, "__name__", ""))
def test_every_place_says_the_same(
    client: Client,
    flights: FakeLeader,
    vitals: SetVitals,
    fault: Callable[[FakeLeader, SetVitals], None],
    expected: Health,
) -> None:
    fault(flights, vitals)
    said = everywhere(client)
    assert said == dict.fromkeys(said, expected)
    row = Connector.objects.annotate(severity_now=known_health().severity_column).get(name=NAME)
    assert row.severity_now == SEVERITY[expected]
    home = get(client, "/ui/")
    assert "All is well" not in home
    assert "nothing is wrong" not in home.lower()
    needs_attention = expected is not Health.STARTING
    assert ('id="wrong-flights"' in home) is needs_attention
    assert ('id="wrong-title"' in home) is needs_attention
    told = client.get("/health").json()
    if fault is nothing_is_read:
        assert told["status"] != "healthy"
    else:
        assert (told["status"], told["connectors_need_attention"]) == ("healthy", int(needs_attention))


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (in_motion, "reading source offsets: 5 of 20"),
        (refused_by_kafka, "nothing can be written since"),
        (its_plugin_logs_that_it_cannot_connect, NO_NODE),
        (its_plugin_logs_that_it_cannot_connect, "The plugin tries again by itself, and reports nothing else"),
        (started_again, "no such table"),
        (worker_started_again_long_ago, "Its worker was started again or stopped"),
    ],
)
def test_the_page_says_why(
    client: Client, flights: FakeLeader, vitals: SetVitals, fault: Callable[..., None], says: str
) -> None:
    assert says not in get(client, f"/ui/connectors/{NAME}")
    fault(flights, vitals)
    assert says in " ".join(get(client, f"/ui/connectors/{NAME}").split())


def test_the_list_says_whose_word_it_is(client: Client, flights: FakeLeader) -> None:
    its_plugin_logs_that_it_cannot_connect(flights, lambda _: None)
    assert "Its plugin logs that it cannot connect, and tries again" in get(client, "/ui/connectors")


FAULTS = [
    in_motion,
    refused_by_kafka,
    its_plugin_logs_that_it_cannot_connect,
    worker_started_again_long_ago,
    nothing_is_read,
]


@pytest.mark.parametrize("fault", FAULTS)
def test_the_rules_that_are_there_from_the_first_day_open_one_incident(
    flights: FakeLeader, vitals: SetVitals, fault: Callable[..., None]
) -> None:
    for name, kind, seconds in (("a", "retrying", 30), ("b", "not-running", 30), ("c", "cluster", 30)):
        Rule.objects.create(name=name, kind=kind, seconds=seconds)
    evaluator = evaluation.Evaluator("here", lambda _: None, lambda: True)
    evaluator.once(now_ms())
    assert not Incident.objects.exists()
    fault(flights, vitals)
    evaluator.once(now_ms() + 15_000)
    [incident] = Incident.objects.all()
    assert incident.connector == ("" if fault is nothing_is_read else NAME)


def test_it_fails_since_its_first_failure_through_all_automatic_restarts(client: Client, flights: FakeLeader) -> None:
    flights.report(NAME, 0, State.FAILED, trace="ValueError: no such table", why="failed", ended=True)
    since_ms = now_ms() - 300_000
    Connector.objects.filter(name=NAME).update(health_since_ms=since_ms)
    for number in (1, 2):
        Task.objects.filter(connector=NAME).update(failed_ms=now_ms())
        task = Task.objects.get(connector=NAME)
        again = replace(
            task_status(NAME, 0, State.RUNNING, task.generation), attempt=task.attempt + 1, since_ms=now_ms() + number
        )
        flights.status.status(again)
        flights.project()
        row = Connector.objects.get(name=NAME)
        assert (row.health, row.trouble_since_ms, row.health_since_ms) == (Health.RETRYING, since_ms, since_ms)
        flights.status.status(replace(again, state=State.FAILED, trace="ValueError: no such table", ended=True))
        flights.project()
        row = Connector.objects.get(name=NAME)
        assert (row.health, row.health_since_ms) == (Health.UNHEALTHY, since_ms)
    assert "5 min" in get(client, "/ui/")


def test_a_failure_is_over_when_records_have_flowed_or_the_source_has_answered_for_a_while(
    client: Client, flights: FakeLeader
) -> None:
    started_again(flights, lambda _: None)
    page = get(client, f"/ui/connectors/{NAME}")
    assert "no such table" in page
    assert "this stays until records have flowed" in " ".join(page.split())
    assert Task.objects.get(connector=NAME).failed_ms
    task = Task.objects.get(connector=NAME)
    again = task_status(NAME, 0, State.FAILED, task.generation)
    failed = replace(
        again, attempt=task.attempt, since_ms=task.since_ms + 1, trace="ValueError: another one", ended=True
    )
    flights.status.status(failed)
    flights.project()
    page = get(client, f"/ui/connectors/{NAME}")
    assert "another one" in page
    assert "no such table" not in page
