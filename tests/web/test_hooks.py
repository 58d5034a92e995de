"""`/hooks/<connector>` in the web process: its own limits, no session, and nothing else of the site behind it."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from django.test import override_settings

from ringfence.connectors.api import Endpoint
from ringfence.connectors.sdk.log_limit import LogLimit
from ringfence.fencing.ids import ConnectorName, Generation, Incarnation, TaskId, WorkerId
from ringfence.fencing.topics.status import State, TaskStatus, decode
from ringfence.local.ports import free_port
from ringfence.projection.endpoints import find_endpoint, pack_endpoint
from ringfence.projection.models import Task
from ringfence.web.hooks import arriving_bodies, receiver
from ringfence.web.hooks.link import Unreachable
from ringfence.web.hooks.links import Links, look_up
from ringfence.web.hooks.receiver import Receiver, hook_name
from tests.support.logs import own_messages
from tests.support.routes import concrete, routes

ENDPOINT = Endpoint("id", "127.0.0.1", 1, "the-secret")


class FakeLink:
    """Answers each request when it is told to."""

    most_body = 100

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.headers: list[Any] = []
        self.free = asyncio.Event()
        self.fails = False

    async def open(self) -> None:
        if self.fails:
            raise Unreachable

    async def ask(self, headers: Any, body: bytes, seconds: float) -> dict[str, Any]:
        self.bodies.append(body)
        self.headers = headers
        await self.free.wait()
        return {"status": 200, "text": "accepted", "again": 0}


class FakeLinks:
    def __init__(self) -> None:
        self.link: FakeLink | None = FakeLink()

    async def find(self, name: str) -> tuple[bool, Any]:
        return name != "unknown", self.link


class Site:
    def __init__(self) -> None:
        self.links = FakeLinks()
        self.receiver = Receiver(self.links)  # type: ignore[arg-type]

    async def post(
        self,
        name: str = "hook",
        body: bytes = b"{}",
        method: str = "POST",
        headers: Any = (),
        parts: Any = None,
        client: str = "127.0.0.1",
        receive: Any = None,
    ) -> tuple[int, dict[str, str], dict[str, Any]]:
        messages = [{"type": "http.request", "body": each, "more_body": True} for each in parts or [body]]
        messages.append({"type": "http.request", "body": b"", "more_body": False})
        sent: list[dict[str, Any]] = []

        async def receive_all() -> dict[str, Any]:
            return messages.pop(0)

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        scope = {"method": method, "headers": headers, "client": (client, 1)}
        await self.receiver(name, scope, receive or receive_all, send)
        found = {key.decode(): value.decode() for key, value in sent[0]["headers"]}
        return sent[0]["status"], found, json.loads(sent[1]["body"])


def on_site(what: Callable[[Site], Any]) -> Any:
    async def run() -> Any:
        return await what(Site())

    return asyncio.run(run())


def test_only_its_own_route_is_taken_before_django() -> None:
    taken = [route for route in routes() if hook_name({"path": concrete(route)}) is not None]
    assert taken == ["hooks/<name:name>"]
    assert hook_name({"path": "/hooks/a/b"}) == "a/b"
    assert hook_name({"path": "/base/hooks/a", "root_path": "/base"}) == "a"
    assert hook_name({"path": "/ui/hooks/a"}) is None


def test_a_request_is_answered_when_the_task_answers() -> None:
    async def ask(site: Site) -> None:
        assert site.links.link is not None
        asked = asyncio.create_task(site.post(parts=[b"{", b"}"], headers=[(b"idempotency-key", b"k")]))
        await asyncio.sleep(0.01)
        assert not asked.done()
        site.links.link.free.set()
        assert (await asked)[0] == 200
        assert site.links.link.bodies == [b"{}"]
        assert site.links.link.headers == [("idempotency-key", "k")]

    on_site(ask)


@pytest.mark.parametrize(
    ("length", "kept"), [(b"2", True), (b"65536", True), (b"65537", False), (b"", False), (b"-1", False)]
)
def test_a_sender_keeps_its_connection_where_too_much_waits(length: bytes, kept: bool) -> None:
    """Unless its body is large, or of unknown length: that is not read."""

    async def ask(site: Site) -> None:
        site.links.link = None
        status, headers, _ = await site.post(headers=[(b"content-length", length)])
        assert (status, headers.get("connection")) == (503, None if kept else "close")

    on_site(ask)


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ({"name": "unknown"}, 404),
        ({"name": ""}, 404),
        ({"method": "GET"}, 405),
        ({"body": b"x" * 101}, 413),
        ({"headers": [(b"content-length", b"101")]}, 413),
        ({"headers": [(b"h", b"x" * receiver.MOST_HEADER_BYTES)]}, 431),
        ({"headers": [(b"a", b"")] * 101}, 431),
    ],
)
def test_what_is_refused(given: dict[str, Any], status: int) -> None:
    found, headers, told = on_site(lambda site: site.post(**given))
    assert found == status == told["error_code"]
    assert "retry-after" not in headers


def test_whatever_may_pass_is_answered_with_retry_after() -> None:
    async def ask(site: Site) -> None:
        link = site.links.link
        assert link is not None
        link.fails = True
        answers = [await site.post()]
        site.links.link = None
        answers.append(await site.post())
        assert [(status, int(headers["retry-after"]) > 0) for status, headers, _ in answers] == [(503, True)] * 2

    on_site(ask)


def test_one_webhook_leaves_room_for_others_and_all_for_the_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiver, "MOST_OF_ONE", 2)
    monkeypatch.setattr(receiver, "MOST_AT_ONCE", 3)
    monkeypatch.setattr(arriving_bodies, "MOST_BYTES", 10)

    async def ask(site: Site) -> None:
        link = site.links.link
        assert link is not None
        waiting = [asyncio.create_task(site.post("loud")) for _ in range(2)]
        await asyncio.sleep(0.01)
        assert (await site.post("loud"))[0] == 503
        assert (await site.post("other", b"x" * 7))[0] == 503, "too many bytes"
        waiting.append(asyncio.create_task(site.post("other")))
        await asyncio.sleep(0.01)
        assert (await site.post("third"))[0] == 503
        link.free.set()
        assert [(await each)[0] for each in waiting] == [200] * 3
        assert (await site.post("loud", b"x" * 10))[0] == 200, "all is given back"

    on_site(ask)


def test_an_address_gets_half_of_a_webhooks_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiver, "MOST_OF_ADDRESS", 2)

    async def ask(site: Site) -> None:
        link = site.links.link
        assert link is not None
        waiting = [asyncio.create_task(site.post(client="192.0.2.1")) for _ in range(2)]
        await asyncio.sleep(0.01)
        assert (await site.post(client="192.0.2.1"))[0] == 503
        waiting.append(asyncio.create_task(site.post(client="192.0.2.2")))
        await asyncio.sleep(0.01)
        link.free.set()
        assert [(await each)[0] for each in waiting] == [200] * 3

    on_site(ask)


@override_settings(BEHIND_PROXY=True)
def test_behind_a_proxy_the_forwarded_address_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiver, "MOST_OF_ADDRESS", 1)

    async def ask(site: Site) -> None:
        link = site.links.link
        assert link is not None
        first = asyncio.create_task(site.post(headers=[(b"x-forwarded-for", b"192.0.2.9, 192.0.2.1")]))
        await asyncio.sleep(0.01)
        assert (await site.post(headers=[(b"x-forwarded-for", b"192.0.2.1")]))[0] == 503
        other = asyncio.create_task(site.post(headers=[(b"x-forwarded-for", b"192.0.2.2")]))
        await asyncio.sleep(0.01)
        link.free.set()
        assert [(await each)[0] for each in (first, other)] == [200, 200]

    on_site(ask)


def test_a_network_of_ipv6_is_one_sender() -> None:
    assert receiver.sender_of("2001:db8:1:2:3::4") == receiver.sender_of("2001:db8:1:2::1") == "2001:db8:1:2::/64"
    assert receiver.sender_of("192.0.2.1") == "192.0.2.1"
    assert receiver.sender_of("unknown") == "unknown"


class SlowBody:
    """A request whose body does not end until it is told to."""

    def __init__(self, site: Site, client: str, body: bytes = b"{") -> None:
        self.end = asyncio.Event()
        self._first = [body]
        self.task = asyncio.create_task(site.post(client=client, receive=self._receive))

    async def _receive(self) -> dict[str, Any]:
        if self._first:
            return {"type": "http.request", "body": self._first.pop(), "more_body": True}
        await self.end.wait()
        return {"type": "http.request", "body": b"}", "more_body": False}


def test_bodies_on_their_way_take_no_places_and_the_oldest_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiver, "MOST_OF_ONE", 1)
    monkeypatch.setattr(arriving_bodies, "MOST_AT_ONCE", 4)
    monkeypatch.setattr(arriving_bodies, "MOST_OF_ADDRESS", 3)

    async def ask(site: Site) -> None:
        assert site.links.link is not None
        site.links.link.free.set()
        honest = SlowBody(site, "192.0.2.1")
        await asyncio.sleep(0)
        slow = []
        for _ in range(5):
            slow.append(SlowBody(site, "192.0.2.2"))
            await asyncio.sleep(0.01)
        refused = [await each.task for each in slow[:2]]
        assert [(status, headers["connection"]) for status, headers, _ in refused] == [(503, "close")] * 2
        assert not any(each.task.done() for each in slow[2:])
        third = SlowBody(site, "192.0.2.3")  # all are in use: the address with the most gives way
        assert (await slow[2].task)[0] == 503
        for each in (honest, third):
            each.end.set()
            assert (await each.task)[0] == 200
        for each in slow[3:]:
            each.end.set()
            assert (await each.task)[0] == 200

    on_site(ask)


def test_the_memory_of_all_bodies_is_bounded_and_the_address_with_the_most_gives_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(arriving_bodies, "MOST_BYTES", 100)

    async def ask(site: Site) -> None:
        assert site.links.link is not None
        site.links.link.free.set()
        slow = [SlowBody(site, "192.0.2.2", b"x" * 40) for _ in range(2)]
        await asyncio.sleep(0.01)
        assert (await site.post(client="192.0.2.1", body=b"x" * 50))[0] == 200
        assert (await slow[0].task)[0] == 503
        assert not slow[1].task.done()
        assert (await site.post(client="192.0.2.1", body=b"x" * 60))[0] == 200
        slow[1].end.set()
        assert (await slow[1].task)[0] == 200
        assert (await site.post(client="192.0.2.1", body=b"x" * 100))[0] == 200, "all is given back"

    on_site(ask)


def test_a_body_must_keep_a_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arriving_bodies, "FIRST_SECONDS", 0.05)

    async def ask(site: Site) -> None:
        status, headers, told = await SlowBody(site, "192.0.2.2").task
        assert (status, headers["connection"]) == (408, "close")
        assert "too slow" in told["message"]

    on_site(ask)


def status_of(state: State = State.RUNNING, endpoint: Endpoint | None = ENDPOINT) -> TaskStatus:
    task = TaskId(ConnectorName("hook"), 0)
    return TaskStatus(task, state, WorkerId("w"), Generation(1), 1, Incarnation("i"), endpoint=endpoint)


def test_an_endpoint_goes_through_the_status_topic_and_no_secret_is_shown() -> None:
    status = status_of()
    known = decode(status.to_key().encode(), json.dumps(status.to_value()).encode())
    assert known == status
    assert "the-secret" not in repr(known)


def test_rows_keep_endpoints_encrypted() -> None:
    text = pack_endpoint(status_of())
    assert "the-secret" not in text
    Task.objects.create(connector="hook", number=0, known=True, endpoint=text)
    assert find_endpoint("hook") == ENDPOINT
    assert pack_endpoint(status_of(endpoint=None)) == ""


def test_only_connectors_that_receive_are_webhooks() -> None:
    from ringfence.projection.models import Connector

    Connector.objects.create(name="hook", known=True, class_name="connectors.builtin.webhook.WebhookSource")
    Connector.objects.create(name="other", known=True, class_name="VerifiableSource")
    Task.objects.create(connector="other", number=0, known=True, endpoint=pack_endpoint(status_of()))
    assert look_up("hook") == (True, None)
    assert look_up("other") == look_up("unknown") == (False, None)


def test_a_task_that_cannot_be_reached_is_tried_seldom_and_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever sends requests to a webhook whose task is away neither fills the log nor opens connections."""
    monkeypatch.setattr("ringfence.web.hooks.links._AGAIN_SECONDS", 3600)
    monkeypatch.setattr("ringfence.web.hooks.link._limit", LogLimit())  # another test may have used this minute
    endpoint = Endpoint("id", "127.0.0.1", free_port(), "s")

    async def run() -> None:
        async def ask(name: str) -> tuple[bool, Endpoint | None]:
            return True, endpoint

        site = Site()
        site.receiver = Receiver(Links(ask))
        for _ in range(20):
            assert (await site.post())[0] == 503

    asyncio.run(run())
    assert len(own_messages(caplog)) == 1


def test_names_without_a_webhook_take_few_queries_and_push_out_no_webhook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ringfence.web.hooks.links._MOST_NAMES", 10)
    most = [0, 0]

    async def ask(name: str) -> tuple[bool, Endpoint | None]:
        most[0] += 1
        most[1] = max(most)
        await asyncio.sleep(0.001)
        most[0] -= 1
        return name == "hook", None

    async def run() -> None:
        links = Links(ask)
        assert (await links.find("hook"))[0]
        await asyncio.gather(*(links.find(f"none-{number}") for number in range(100)))
        assert most[1] <= 8
        assert "hook" in links._states

    asyncio.run(run())


def test_the_rows_are_asked_once_a_second_and_a_new_task_replaces_the_old_ones_connection() -> None:
    asked: list[str] = []
    now = [ENDPOINT]

    async def ask(name: str) -> tuple[bool, Endpoint | None]:
        asked.append(name)
        await asyncio.sleep(0)
        return True, now[0]

    async def run() -> None:
        links = Links(ask)
        found = await asyncio.gather(*(links.find("hook") for _ in range(5)))
        assert asked == ["hook"]
        assert len({id(link) for _, link in found}) == 1
        now[0] = Endpoint("next", "127.0.0.1", 2, "s")
        links._states.clear()
        _, link = await links.find("hook")
        assert link is not None
        assert link.endpoint.id == "next"
        assert found[0][1] is not None
        assert found[0][1].closed

    asyncio.run(run())
