"""A failed task's page names the record, its value only for those who may see data, and offers what helps."""

import re
from dataclasses import replace

import pytest
from django.test import Client

from ringfence import middleware as middleware
from ringfence.access.principal import Principal, Right, Verb
from ringfence.fencing.topics.status import FAILED, State
from ringfence.fencing.topics.status.failed_record import RecordFailure
from ringfence.history.models import ConfigVersion
from ringfence.projection.models import Task
from tests.support.leader import FakeLeader
from tests.support.pages import text
from tests.support.topics import connector, task_status

FRAGMENT = {"hx-request": "true"}
PAGE = "/ui/connectors/flights"
CAST = {"transforms": "c", "transforms.c.type": "Cast$Value", "transforms.c.spec": "int64"}
RECORD = RecordFailure(
    "TRANSFORMATION", "CastValue", "c", ("transforms.c.spec",), "t", '{"filename":"nums.txt"}', '{"position":3}', "abc"
)


@pytest.fixture
def flights(leader: FakeLeader) -> FakeLeader:
    leader.config.config(connector("flights", topic="t", **{**CAST, "transforms.c.spec": "int32"}))
    leader.config.config(connector("flights", topic="t", **CAST))
    leader.start("flights")
    status = task_status("flights", 0, State.FAILED, Task.objects.get().generation, "ValueError: no number")
    leader.status.status(replace(status, why=FAILED, ended=True, since_ms=9_000, failure=RECORD))
    leader.project()
    return leader


def version(page: str) -> str:
    found = re.search(r'name="version"[^>]* value="(\d+)"', page)
    assert found is not None
    return found.group(1)


def test_the_page_names_the_record(client: Client, flights: FakeLeader) -> None:
    page = text(client.get(PAGE))
    for told in ("nums.txt", "&quot;position&quot;:3", "TRANSFORMATION", "<code>c</code>", "transforms.c.spec", "abc"):
        assert told in page, told
    assert "A restart reads this record" in page
    restart = page[page.index('id="do-restart-failed"') :].partition(">")[0]
    assert "primary" not in restart, "it would fail on the same record"
    assert "abc" not in Task.objects.get().failure, "data of the source is not kept in clear"


@pytest.mark.parametrize(("topics", "sees"), [(["*"], True), (["other*"], False), (None, False)])
def test_its_value_is_for_who_may_see_data_of_the_topic(
    client: Client, flights: FakeLeader, monkeypatch: pytest.MonkeyPatch, topics: list[str] | None, sees: bool
) -> None:
    """`view-data` may be limited to topics; None: not granted at all."""
    granted = Right(frozenset({Verb.VIEW}) | ({Verb.VIEW_DATA} if topics else set()), topics=tuple(topics or ["*"]))
    monkeypatch.setattr(middleware, "identify", lambda request: Principal("ann", "session", (granted,)))
    assert ("abc" in text(client.get(PAGE))) == sees
    task = client.get("/api/v1/connectors/flights/tasks").json()["results"][0]["failed_record"]
    assert (task["value"] == "abc") == sees
    assert task["source_offset"] == '{"position":3}'


def test_a_bad_record_is_sent_to_a_dead_letter_queue(client: Client, flights: FakeLeader) -> None:
    path = f"{PAGE}/repairs/dead-letter"
    question = text(client.get(path, headers=FRAGMENT))
    assert "errors.tolerance" in question
    assert "flights-dead-letters" in question
    asked = len(flights.asked)
    answer = client.post(path, {"version": version(question), "topic": "bad"}, headers=FRAGMENT)
    assert answer.status_code == 200
    kind, _, body = flights.asked[asked]
    assert kind == "configure"
    assert body["config"]["errors.tolerance"] == "all"
    assert body["config"]["errors.deadletterqueue.topic.name"] == "bad"
    assert body["config"]["transforms.c.spec"] == "int64"


def test_the_setting_is_changed_in_place(client: Client, flights: FakeLeader) -> None:
    path = f"{PAGE}/repairs/setting"
    question = text(client.get(f"{path}?task=0", headers=FRAGMENT))
    assert 'name="transforms.c.spec" value="int64"' in question
    asked = len(flights.asked)
    values = {"version": version(question), "task": "0", "transforms.c.spec": "string", "topic": "not mine"}
    assert client.post(path, values, headers=FRAGMENT).status_code == 200
    kind, _, body = flights.asked[asked]
    assert (kind, body["config"]["transforms.c.spec"], body["config"]["topic"]) == ("configure", "string", "t")


def test_a_repair_that_changes_nothing_is_refused(client: Client, flights: FakeLeader) -> None:
    path, asked = f"{PAGE}/repairs/setting", len(flights.asked)
    question = text(client.get(f"{path}?task=0", headers=FRAGMENT))
    answer = client.post(path, {"version": version(question), "task": "0"}, headers=FRAGMENT)
    assert answer.status_code == 422
    assert "Nothing differs" in text(answer)
    assert flights.asked[asked:] == []


def test_what_was_changed_meanwhile_is_asked_again(client: Client, flights: FakeLeader) -> None:
    asked = len(flights.asked)
    answer = client.post(f"{PAGE}/repairs/dead-letter", {"version": "0"}, headers=FRAGMENT)
    assert answer.status_code == 409
    assert "changed in between" in text(answer)
    assert flights.asked[asked:] == []


def test_going_back_asks_about_the_version_before(client: Client, flights: FakeLeader) -> None:
    answer = client.get(f"{PAGE}/repairs/rollback", headers=FRAGMENT)
    assert answer["location"] == f"{PAGE}/versions/1/rollback"
    assert 'id="repair-back-1"' in text(client.get(PAGE))
    ConfigVersion.objects.filter(number=1).delete()
    assert 'id="repair-back-1"' not in text(client.get(PAGE)), "there is nothing to go back to"
