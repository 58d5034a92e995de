"""A task that waits for a slot says so, with how many are in use and what helps."""

from dataclasses import replace

import pytest
from django.test import Client

from ringfence.fencing.ids import NOBODY, Incarnation, WorkerId
from ringfence.fencing.topics.status import NO_SLOT, State, WorkerRecord
from ringfence.projection.models import Connector, Task
from tests.support.leader import FakeLeader
from tests.support.pages import text
from tests.support.topics import connector, generation, task_status


@pytest.mark.parametrize("page", ["/ui/connectors/late", "/ui/connectors"])
def test_a_connector_without_a_slot(client: Client, leader: FakeLeader, page: str) -> None:
    leader.config.config(connector("first"), connector("late"))
    leader.start("first", tasks=2)
    leader.start("late", state=State.FAILED)
    leader.status.status(WorkerRecord(WorkerId("w1"), Incarnation("i"), "enabled", 2, "1", 1))
    assert "Waits for a slot" not in text(client.get(page))
    generation = Connector.objects.get(name="late").generation
    waits = task_status("late", 0, State.UNASSIGNED, generation + 1)
    leader.status.status(replace(waits, worker=WorkerId(""), incarnation=NOBODY, attempt=0, why=NO_SLOT, since_ms=9))
    leader.project()
    assert Task.objects.get(connector="late").trace == ""
    Connector.objects.filter(name="late").update(health="STARTING", state="RUNNING")
    shown = text(client.get(page))
    assert "Waits for a slot: 2 of 2 in use" in shown
    assert ("add a worker" in shown) is page.endswith("late")
    overview = text(client.get("/ui/"))
    assert 'id="wrong-late"' in overview
    assert "1 of 2 connectors waits for a slot: late" in overview
    assert "Needs attention" in overview


def test_the_old_error_is_gone_with_the_configuration_that_it_was_about(client: Client, leader: FakeLeader) -> None:
    """From the moment that the new one is written: before its tasks are made, and while they wait for a slot."""
    leader.config.config(connector("first"), connector("late"))
    leader.start("first", tasks=2)
    leader.start("late")
    leader.status.status(WorkerRecord(WorkerId("w1"), Incarnation("i"), "enabled", 2, "1", 1))
    leader.report("late", 0, State.FAILED, trace="ValueError: the old one", why="failed", next_ms=5, ended=True)

    def shown() -> list[str]:
        return [text(client.get(page)) for page in ("/ui/connectors/late", "/ui/connectors/late/tasks", "/ui/")]

    assert all("the old one" in page for page in shown()[:2])
    leader.config.config(connector("late", file="another"))
    leader.project()
    assert not any("the old one" in page for page in shown())
    leader.config.config(*generation("late", 1, len(leader.config.records)))
    leader.project()
    assert not any("the old one" in page for page in shown())


def test_the_form_says_before_that_no_slot_is_free(client: Client, leader: FakeLeader) -> None:
    form = {"class": "VerifiableSource", "name": "c", "setting:topic": "t"}
    leader.status.status(WorkerRecord(WorkerId("w1"), Incarnation("i"), "enabled", 1, "1", 1))
    leader.project()

    def said() -> str:
        return client.post("/ui/new/review", form, headers={"HX-Request": "true"}).content.decode()

    assert "No free slot" not in said()
    leader.config.config(connector("first"))
    leader.start("first")
    assert "No free slot: 1 of 1 in use. The other tasks wait." in said()
    assert "settings to correct" not in said()


@pytest.mark.parametrize(("slots", "waits"), [(2, True), (3, False)])
def test_a_restart_that_finds_no_slot_says_so(client: Client, leader: FakeLeader, slots: int, waits: bool) -> None:
    leader.config.config(connector("first"), connector("late"))
    leader.start("first", tasks=2)
    leader.start("late")
    leader.status.status(WorkerRecord(WorkerId("w1"), Incarnation("i"), "enabled", slots, "1", 1))
    leader.report("late", 0, State.FAILED, trace="ValueError: the old one", why="failed", next_ms=5, ended=True)
    page = text(client.get("/ui/connectors/late"))
    assert ("Its automatic restart is due and waits for a slot" in page) is waits
    assert ("Waits for a slot: 2 of 2 in use" in page) is waits
    assert ("Waits for a slot" in text(client.get("/ui/connectors"))) is waits
    assert client.get("/api/v1/connectors/late").json()["reason"].startswith("Waits for a slot") is waits
