"""No account fills the lanes of questions and commands: what it has under way, and how fast it asks, is limited."""

import asyncio
import random
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.test import Client
from django.urls import URLPattern, get_resolver

from ringfence import dispatch, quotas, transport
from ringfence.access.authorise import declarations
from ringfence.environment import RequestLimits, request_limits
from ringfence.quotas import Hold, Lane, Limits, QueuedLane, TooMany, asking
from tests.support.waiting import eventually

real_ask = dispatch.ask  # before the stand-in of the other tests takes its place


_kept: list[object] = []


class Clock:
    """Stands still until it is told to go on."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def lane(clock: Callable[[], float], **changes: float) -> Lane:
    limits = {"each": 2, "together": 3, "waiting": 0, "burst": 100, "per_second": 10, "patience": 5, **changes}
    return Lane("questions", Limits(**limits), clock)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def _nobody_asks() -> Iterator[None]:
    before = asking.set(None)
    yield
    asking.reset(before)


def begin(one: Lane, who: str | None) -> Callable[[], None]:
    """Under way until the answer is called."""
    asking.set(who)
    taken = one.take()
    taken.__enter__()
    _kept.append(taken)  # a context manager that nobody holds any more ends

    def end() -> None:
        taken.__exit__(None, None, None)

    return end


def test_one_account_fills_its_share_and_no_more() -> None:
    one = lane(Clock())
    ends = [begin(one, "ann"), begin(one, "ann")]
    with pytest.raises(TooMany, match="2 questions of yours are in progress"):
        begin(one, "ann")
    begin(one, "bob")
    with pytest.raises(TooMany, match="busy with questions of others"):
        begin(one, "cid")
    ends[0]()
    begin(one, "cid")


def test_who_is_no_request_is_not_limited() -> None:
    one = lane(Clock())
    for _ in range(10):
        begin(one, None)
    begin(one, "ann")


def test_what_ends_badly_ends_too() -> None:
    one = lane(Clock())
    asking.set("ann")
    for _ in range(5):
        with pytest.raises(ZeroDivisionError), one.take():
            raise ZeroDivisionError


def test_a_burst_is_followed_by_the_rate() -> None:
    clock = Clock()
    one = lane(clock, burst=3)
    asking.set("ann")
    for _ in range(3):
        with one.take():
            pass
    with pytest.raises(TooMany, match="More than 10 questions per second"), one.take():
        pass
    clock.now += 0.15
    with one.take():
        pass
    with pytest.raises(TooMany), one.take():
        pass
    asking.set("bob")
    with one.take():
        pass


def test_some_wait_for_their_turn() -> None:
    one = lane(Clock(), waiting=1)
    end, _ = begin(one, "ann"), begin(one, "ann")
    came = threading.Event()

    def third() -> None:
        asking.set("ann")
        with one.take():
            came.set()

    thread = threading.Thread(target=third)
    thread.start()
    eventually(lambda: one._waiting == 1, 10, "somebody waits")
    with pytest.raises(TooMany):
        begin(one, "ann")
    assert not came.is_set()
    end()
    assert came.wait(10)
    thread.join()


def test_the_lanes_leave_threads_for_pages_and_health() -> None:
    from ringfence import after_answer
    from ringfence.web.asgi_handler import PROBE_THREADS, THREADS

    lanes = (
        quotas.QUESTIONS,
        quotas.COMMANDS,
        quotas.COMPUTING,
        quotas.STRANGERS,
        quotas.SETTLING,
        quotas.WRONG_TOKENS,
    )
    others = sum(one._limits.together + one._limits.waiting for one in lanes) + after_answer.MOST
    assert others + quotas.READING._together <= THREADS - 8
    assert quotas.READING._each <= (THREADS - others) / 2
    assert quotas.SCRAPES._limits.together <= PROBE_THREADS
    for one in (*lanes, quotas.SCRAPES):
        assert one._limits.each < one._limits.together


def test_a_free_place_to_read_is_of_who_has_the_fewest() -> None:
    one = QueuedLane("requests", each=2, together=3)
    order: list[str] = []

    async def read(who: str) -> None:
        place = await one.wait(who, 20)
        assert place is not None
        order.append(who)
        await asyncio.sleep(0)
        place.release()

    async def all_at_once() -> None:
        first = [one.hold("ann"), one.hold("ann"), one.hold("bob")]
        for who in ("ann", "bob", "cid"):
            with pytest.raises(TooMany):
                one.hold(who)
        reads = [asyncio.create_task(read("ann")) for _ in range(20)]
        reads += [asyncio.create_task(read("bob")), asyncio.create_task(read("cid"))]
        while sum(map(len, one._lines.values())) < 22:
            await asyncio.sleep(0.01)
        with pytest.raises(TooMany):
            one.hold("dan")
        for place in first:
            place.release()
        await asyncio.gather(*reads)

    asyncio.run(all_at_once())
    assert {"bob", "cid"} <= set(order[:4]), order
    assert not one._running
    assert not one._lines


@pytest.mark.parametrize("seed", range(20))
def test_no_place_to_read_is_lost_or_given_twice(seed: int) -> None:
    """Reads that end in other threads, while others give up, or their senders leave."""
    one, chance = QueuedLane("requests", each=2, together=4), random.Random(seed)
    now: Counter[str] = Counter()
    counting = threading.Lock()

    def count(who: str, change: int) -> int:
        with counting:
            now[who] += change
            return max(now.values())

    def end(who: str, place: Hold) -> None:
        time.sleep(chance.random() / 500)
        with place.give_back():
            pass
        count(who, -1)
        place.release()

    async def read(who: str, pool: ThreadPoolExecutor) -> None:
        place = await one.wait(who, chance.random() / 50)
        if place is not None:
            assert count(who, 1) <= 2 + 1  # one may come back to its place, which another one has
            ending = pool.submit(end, who, place)
            try:
                await asyncio.wrap_future(ending)
            finally:
                if ending.cancelled():  # its sender has left before a thread was free
                    count(who, -1)
                    place.release()

    async def many() -> None:
        with ThreadPoolExecutor(8) as pool:
            reads = [asyncio.create_task(read(chance.choice("abc"), pool)) for _ in range(60)]
            await asyncio.sleep(0.01)
            waiting = [each for each in reads if not each.done()]
            for each in chance.sample(waiting, len(waiting) // 4):
                each.cancel()
            outcomes = await asyncio.gather(*reads, return_exceptions=True)
        assert not [each for each in outcomes if isinstance(each, AssertionError)]

    asyncio.run(many())
    # A cancelled task's thread may still be at its end.
    eventually(lambda: not one._running, 10, lambda: str(one._running))
    assert not one._lines


def test_too_many_are_told_so_with_429(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    full = lane(Clock(), each=0)
    monkeypatch.setattr(dispatch, "QUESTIONS", full)
    monkeypatch.setattr(dispatch, "ask", real_ask)
    config = {"connector.class": "VerifiableSource", "name": "c", "topic": "t"}
    answer = client.put("/api/v1/preflight", config, content_type="application/json")
    assert answer.status_code == 429
    assert int(answer["retry-after"]) >= 1
    assert b"in progress" in answer.content


def test_the_numbers_are_settings() -> None:
    assert request_limits({}) == RequestLimits()
    given = {"RINGFENCE_QUERIES_PER_ACCOUNT": "2", "RINGFENCE_COMMANDS_TOTAL": "40", "RINGFENCE_QUERIES_TOTAL": "8"}
    found = request_limits(given)
    assert (found.queries_per_account, found.queries_total, found.commands_total) == (2, 8, 40)


@pytest.mark.parametrize(
    "given,word",
    [
        ({"QUERIES_TOTAL": "many"}, "RINGFENCE_QUERIES_TOTAL=many: an integer"),
        ({"REQUESTS_BURST": "0"}, "at least 1"),
        ({"QUERIES_PER_ACCOUNT": "25"}, "more than RINGFENCE_QUERIES_TOTAL=24"),
        ({"COMMANDS_TOTAL": "25"}, "at most 48"),
    ],
)
def test_numbers_that_would_leave_no_thread_are_refused(given: dict[str, str], word: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=word):
        request_limits({f"RINGFENCE_{name}": value for name, value in given.items()})


def _routes_with_bodies() -> list[tuple[str, str]]:
    """Each route that takes a body, with its method: found, so that a new one is held, too."""

    def walk(patterns: Any, before: str = "") -> Any:
        for each in patterns:
            if isinstance(each, URLPattern):
                route = f"/{before}{each.pattern}"
                for method in declarations(each.callback):
                    if method not in ("GET", "HEAD", "OPTIONS"):
                        yield method, re.sub(r"<int:\w+>", "1", re.sub(r"<name:\w+>", "c", route))
            else:
                yield from walk(each.url_patterns, before + str(each.pattern))

    found = list(walk(get_resolver().url_patterns))
    assert len(found) > 100
    return [
        route for route in found if not route[1].startswith("/hooks/")
    ]  # answered before Django, web/hooks/receiver.py


@pytest.mark.parametrize(("method", "path"), _routes_with_bodies())
def test_every_request_with_a_body_has_a_place(
    client: Client, monkeypatch: pytest.MonkeyPatch, method: str, path: str
) -> None:
    full = lane(Clock(), each=0)
    for name in ("COMPUTING", "STRANGERS"):
        monkeypatch.setattr(quotas, name, full)
    answer = client.generic(method, path, b"{}", content_type="application/json")
    assert answer.status_code == 429, (method, path, answer.content[:200])
    assert int(answer["retry-after"]) >= 1


def test_a_place_is_free_after_the_answer_and_while_a_worker_is_waited_for(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = lane(Clock(), each=1)
    monkeypatch.setattr(quotas, "COMPUTING", one)
    monkeypatch.setattr(dispatch, "ask", real_ask)
    counts: list[int] = []

    def wait_for_a_worker(*_: object, **__: object) -> dict[str, Any]:
        counts.append(one._running.total())
        raise dispatch.Refusal(503, "nobody is there")

    monkeypatch.setattr(dispatch, "_refuse_in_vain", lambda leader: None)
    monkeypatch.setattr(transport, "ask", wait_for_a_worker)
    config = {"connector.class": "VerifiableSource", "name": "c", "topic": "t"}
    for _ in range(2):
        answer = client.put("/api/v1/preflight", config, content_type="application/json")
        assert answer.status_code == 503, answer.content
    assert counts[:1] == [0]
    assert one._running.total() == 0
    assert client.post("/api/v1/import", {"format": "x"}, content_type="application/json").status_code == 400
    assert one._running.total() == 0
