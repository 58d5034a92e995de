"""The console's pages follow what they show: the part that changes, and what wakes it."""

import asyncio
from collections.abc import Iterator

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.test import Client, override_settings

from ringfence.access.models import Grant
from ringfence.projection.change_notifications import ANYTHING
from ringfence.web.live import streams as live
from ringfence.web.live.streams import Listener
from tests.support import database
from tests.support.leader import FakeLeader
from tests.support.pages import text

PART = {"HX-Request": "true"}
STREAMS = {
    "transactions": "/ui/events", "settings/people": "/ui/events?about=audit",
    "settings/roles": "/ui/events?about=audit", "settings/tokens": "/ui/events?about=audit",
    "settings/sessions": "/ui/events?about=audit", "settings/audit": "/ui/events?about=audit",
    "settings/people/ann/rights?connector=x": "/ui/events?about=audit",
}  # fmt: skip


@pytest.mark.parametrize("path", STREAMS)
def test_a_page_follows_a_stream_and_its_part_comes_without_the_frame(
    client: Client, leader: FakeLeader, path: str
) -> None:
    User.objects.create_user("ann")
    page, part = text(client.get(f"/ui/{path}")), text(client.get(f"/ui/{path}", headers=PART))
    assert f'sse-connect="{STREAMS[path]}"' in page
    assert f'hx-get="/ui/{path.partition("?")[0]}"' in page
    assert "<html" not in part
    assert "<h1" not in part
    assert part.strip()


def logged_in(client: Client, what: str) -> None:
    user = User.objects.create_user("ann", password="right-password-1")
    Grant.objects.create(user=user, what=what, pattern="*")
    assert client.post("/ui/login", {"name": "ann", "secret": "right-password-1"}).status_code == 302


@override_settings(NO_LOGIN="", ALLOWED_HOSTS=["*"])
def test_who_may_not_read_the_audit_trail_is_not_told_when_it_grows(client: Client, leader: FakeLeader) -> None:
    logged_in(client, "view")
    assert client.get("/ui/events?about=audit").status_code == 403
    assert client.get("/ui/events").status_code == 200
    shown = text(client.get("/ui/settings/sessions"))
    assert "sse-connect" not in shown
    assert "every 10s" in shown


@pytest.fixture
def _committed() -> Iterator[None]:
    database.migrate()
    database.empty()
    yield
    database.empty()


def _write() -> None:
    from ringfence.audit.models import Outcome
    from ringfence.audit.trail import record

    record("create account", user="ann", via="session", address="::1", outcome=Outcome.DONE)


@pytest.mark.usefixtures("_committed")
def test_an_entry_of_the_audit_trail_wakes_the_pages_that_show_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live, "TICK_SECONDS", 3600.0)
    monkeypatch.setattr(live, "BEAT_SECONDS", 3600.0)

    async def told() -> list[str]:
        audit = live.stream(None, audit=True)
        await anext(audit)
        seen = [await asyncio.wait_for(anext(audit), 20)]  # what stood there before, once
        await sync_to_async(_write)()
        seen.append(await asyncio.wait_for(anext(audit), 20))
        await audit.aclose()  # type: ignore[attr-defined]
        return [event.partition("\n")[0] for event in seen]

    assert asyncio.run(told()) == ["event: changed", "event: changed"]


def test_a_page_of_the_audit_trail_is_not_woken_by_connectors() -> None:
    async def woken() -> bool:
        listener = Listener(None, audit=True)
        listener.tell(ANYTHING)
        return listener.changed.is_set()

    assert not asyncio.run(woken())
