"""Numbers on the page of a connector: told in the event itself, as the page would show them, and nothing else."""

import asyncio
import json
import re
import time
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.test import Client

from ringfence.projection.change_notifications import ANYTHING, Notice
from ringfence.projection.models import Connector, Task
from ringfence.web.live import streams
from ringfence.web.live.streams import Listener
from tests.support.leader import FakeLeader
from tests.support.pages import text
from tests.support.topics import connector

_AGE = re.compile(r">[^<]*</time>")


@pytest.fixture
def flights(leader: FakeLeader) -> FakeLeader:
    leader.config.config(connector("flights", topic="t"))
    leader.start("flights", tasks=2)
    return leader


def count(records: int) -> None:
    """The tasks have reported."""
    now_ms = int(time.time() * 1000)
    for task in Task.objects.filter(connector="flights"):
        live = {"live_generation": task.generation, "live_attempt": task.attempt, "open_since_ms": now_ms}
        Task.objects.filter(pk=task.pk).update(rate=12.5, reported_ms=now_ms, **live)
    Connector.objects.filter(name="flights").update(records_total=records, last_commit_ms=now_ms)


def shown(page: str, id: str) -> str:
    """The content of an element that holds no other of its own kind."""
    found = re.search(rf'<(\w+)[^>]*\bid="{id}"[^>]*>(.*?)</\1>', page, re.DOTALL)
    assert found, f"no element {id}"
    return " ".join(found[2].split())


def test_they_are_what_the_page_shows(client: Client, flights: FakeLeader) -> None:
    count(12_345)
    found = streams._read(["flights"], ["flights"])["flights"]
    assert found["records-in-all"] == "12,345 in all"
    assert found["open-transactions"] == "2 transactions open"
    assert found["rate-now"] == "25"
    page = text(client.get("/ui/connectors/flights/tasks"))
    for id, html in found.items():
        assert _AGE.sub("", shown(page, id)) == _AGE.sub("", html)
    overview = text(client.get("/ui/connectors/flights"))
    assert 'sse-connect="/ui/events?connector=flights&amp;tab="' in overview
    assert streams._read(["flights"], [])["flights"].keys() == {each for each in found if not each.startswith("task-")}
    assert streams._read(["nobody"], []) == {}


async def events_of(notices: list[Notice], tasks: bool = False) -> list[str]:
    """What a page hears; the numbers are other ones before each notice."""
    hub, stream = streams.hub(), streams.stream("flights", tasks=tasks)
    seen = [await anext(stream)]
    for number, notice in enumerate(notices):
        await sync_to_async(count)(number + 1)
        hub.tell(notice)
        seen.append(await asyncio.wait_for(anext(stream), 20))
    await stream.aclose()  # type: ignore[attr-defined]
    return seen[1:]


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No notices but those of the test."""

    async def never(hub: streams.Hub) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(streams.Hub, "_listen", never)
    monkeypatch.setattr(streams.Hub, "_watch_vital_signs", never)
    monkeypatch.setattr(streams, "NUMBERS_SECONDS", 0.02)


def data(event: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(event.partition("data: ")[2])
    return found


def test_where_only_numbers_moved_the_event_has_those_that_are_new(flights: FakeLeader, alone: None) -> None:
    moved = Notice(moved=("flights",))
    first, second = asyncio.run(events_of([moved, moved]))
    assert first.startswith("event: numbers\n")
    assert first.endswith("\n\n")
    assert "\n" not in first.partition("data: ")[2].rstrip("\n"), "a line of its own would end the event"
    assert data(first)["html"]["records-in-all"] == "1 in all"
    assert not any(id.startswith("task-") for id in data(first)["html"])
    told = data(second)["html"]
    assert told["records-in-all"] == "2 in all"
    assert "rate-now" not in told, "it is the same"
    assert data(second)["at"] >= data(first)["at"]


def test_the_tab_of_tasks_hears_of_each_task(flights: FakeLeader, alone: None) -> None:
    (event,) = asyncio.run(events_of([Notice(moved=("flights",))], tasks=True))
    assert {"task-0-rate", "task-1-rate"} <= data(event)["html"].keys()


def test_a_change_of_state_is_fetched_and_numbers_of_others_wake_nobody(flights: FakeLeader, alone: None) -> None:
    assert asyncio.run(events_of([Notice(changed=("flights",))]))[0].startswith("event: changed\n")
    assert asyncio.run(events_of([ANYTHING]))[0].startswith("event: changed\n")
    listener = Listener("flights")
    listener.tell(Notice(moved=("other",)))
    assert not listener.moved
    assert not listener.woken.is_set()


def test_the_rest_of_the_page_follows_after_some_seconds(
    flights: FakeLeader, alone: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "PART_SECONDS", 6.0)  # after three at least: the numbers come long before
    monkeypatch.setattr(streams, "BEAT_SECONDS", 3600.0)

    async def until_part() -> list[str]:
        hub, stream = streams.hub(), streams.stream("flights")
        seen = [await anext(stream)]
        hub.tell(Notice(moved=("flights",)))
        while not seen[-1].startswith("event: changed"):
            seen.append(await asyncio.wait_for(anext(stream), 20))
        await stream.aclose()  # type: ignore[attr-defined]
        return seen[1:]

    *before, last = asyncio.run(until_part())
    assert [event.partition("\n")[0] for event in before] == ["event: numbers"]
    assert last.startswith("event: changed\n")


def test_a_change_of_the_vital_signs_is_told_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another web process may answer the first fetch, with signs that are a second old."""
    signs = iter(["well", "well", "ill", "ill", "ill", "ill"])
    told = list[int]()

    async def read_vital() -> str:
        try:
            return next(signs)
        except StopIteration:
            raise asyncio.CancelledError from None

    async def watch() -> None:
        hub, listener = streams.Hub(), Listener("flights")
        monkeypatch.setattr(listener, "tell_vital_signs", told.append)
        hub._listeners.add(listener)
        await hub._watch_vital_signs()

    monkeypatch.setattr(streams, "read_vital", read_vital)
    monkeypatch.setattr(streams, "_VITAL_SECONDS", 0.0)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(watch())
    assert len(told) == 2
