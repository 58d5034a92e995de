"""A stream of events shows no more than its reader may see now, and ends with the right to it."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from asgiref.sync import sync_to_async
from django.test import override_settings

from ringfence.access.principal import Principal
from ringfence.web import asgi_handler as handler
from ringfence.web.asgi_handler import PooledHandler
from ringfence.web.live import streams as live
from tests.support import database

_PATIENCE = 30.0


@pytest.fixture(autouse=True)
def _outside(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    database.migrate()
    database.empty()
    monkeypatch.setattr(live, "RENEWAL_SECONDS", 0.2)
    monkeypatch.setattr(live, "BEAT_SECONDS", 0.3)
    with override_settings(NO_LOGIN="", ALLOWED_HOSTS=["*"]):
        yield
    database.empty()


def person() -> tuple[Any, Any, str]:
    """An account, the row of its token, and the token."""
    from django.contrib.auth.models import User

    from ringfence.access import tokens
    from ringfence.access.models import Grant

    user = User.objects.create_user("ann")
    Grant.objects.create(user=user, what="viewer", pattern="team-a-*")
    row, text = tokens.create(user, "browser", ["viewer"])
    return user, row, text


def revoke(user: Any, row: Any) -> None:
    from ringfence.access import tokens

    tokens.revoke(row)


def disable(user: Any, row: Any) -> None:
    user.is_active = False
    user.save()


def take_the_grant(user: Any, row: Any) -> None:
    user.grants.all().delete()


@pytest.mark.parametrize("end", [revoke, disable, take_the_grant])
@pytest.mark.parametrize("query", ["", "connector=team-a-flights"])
def test_it_ends(end: Callable[[Any, Any], None], query: str) -> None:
    user, row, text = person()

    async def watch(application: PooledHandler) -> None:
        heard: list[bytes] = []
        begun = False

        async def receive() -> dict[str, Any]:
            nonlocal begun
            if begun:
                await asyncio.Event().wait()
            begun = True
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            heard.append(message.get("body", b"") or str(message.get("status", "")).encode())

        scope: dict[str, Any] = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "http"}
        scope |= {"method": "GET", "path": "/ui/events", "raw_path": b"/ui/events", "root_path": ""}
        scope |= {"query_string": query.encode(), "client": ("10.0.0.1", 1), "server": ("127.0.0.1", 80)}
        scope |= {"headers": [(b"host", b"localhost"), (b"authorization", f"Bearer {text}".encode())]}
        stream = asyncio.create_task(application(scope, receive, send))
        while sum(b"event: beat" in each for each in heard) < 2:  # it outlives its heartbeats while nothing changes
            await asyncio.sleep(0.05)
            assert not stream.done(), heard
        assert heard[0] == b"200"
        await sync_to_async(end)(user, row)
        await stream

    run(watch)


def test_it_tells_of_no_more_than_its_reader_may_see_now() -> None:
    fewer = cast(Principal, SimpleNamespace(filter_names=lambda names: set()))

    async def renew() -> Principal:
        return fewer

    async def watch(_: PooledHandler) -> None:
        events = live.stream(None, renew=renew)
        await anext(events)
        (listener,) = live.hub()._listeners
        assert listener.who is not fewer
        while listener.who is not fewer:  # the patience of `run` ends this
            await anext(events)
        await events.aclose()  # type: ignore[attr-defined]

    run(watch)


def run(what: Callable[[PooledHandler], Awaitable[None]]) -> None:
    from django.db import connections

    async def within() -> None:
        async with asyncio.timeout(_PATIENCE):
            application = PooledHandler()
            await what(application)
            await asyncio.gather(*(application.in_thread(connections.close_all) for _ in range(handler.THREADS)))

    asyncio.run(within())
