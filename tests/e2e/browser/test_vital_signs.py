"""Workers, Kafka and Redis are frozen or killed: every page says so within 15 seconds, and what is past looks past."""

import os
import signal
import time
from collections.abc import Callable, Sequence

import pytest
from playwright.sync_api import Page, Route, expect

from tests.e2e import processes
from tests.e2e.browser.conftest import Visitors
from tests.e2e.browser.facts import state
from tests.e2e.browser.visitor import NARROW, Visitor
from tests.e2e.flow import Flow
from tests.e2e.machine import watched
from tests.e2e.up import Up
from tests.support.waiting import eventually

Make = Callable[..., Flow]
Note = Callable[[str, float], None]
SAID_WITHIN_SECONDS = 15.0
AGAIN_MS = 90_000
SIGNS = "**/ui/vital-signs"
CHANGE = "document.body.dispatchEvent(new CustomEvent('ringfence-vital-signs'))"


def await_problem(pages: Sequence[Page], key: str, since: float) -> float:
    """Seconds from then until each page's head says it."""
    for page in pages:
        expect(page.locator(f'[data-problem="{key}"]')).to_be_visible()
    return time.monotonic() - since


def await_calm_head(pages: Sequence[Page]) -> None:
    """Wait until no page's head shows a problem."""
    for page in pages:
        expect(page.locator("#vital-signs")).to_have_text("", timeout=AGAIN_MS)


@pytest.mark.thorough
def test_workers_that_do_not_report(visitors: Visitors, platform: Up, flow: Make, stopwatch: Note) -> None:
    """Frozen first one, then both: pages with a stream and without one, wide and narrow, light and dark."""
    one = flow(throughput=50)
    ann, bob, eve = visitors(), visitors(width=NARROW, theme="dark"), visitors()
    pages = [
        ann.go(f"/ui/connectors/{one.name}"),
        bob.go("/ui/connectors"),
        eve.go("/ui/incidents"),
    ]
    ann.await_live()
    bob.await_live()
    state(pages[0], "Healthy")
    here = one.worker_of()
    other = next(name for name in ("worker-1", "worker-2") if name != here)
    with platform.frozen([platform.pid(here), platform.pid(other)]):
        began = time.monotonic()
        with watched() as promised:
            said = await_problem(pages, "no-worker", began)
        stopwatch("said by every page", said)
        assert said < promised(SAID_WITHIN_SECONDS)
        state(pages[0], "Unknown")
        expect(pages[0].locator(".as-of")).to_contain_text("This data is as of")
        expect(pages[1].locator(f'[data-row="{one.name}"]')).to_contain_text("Unknown")
        assert bob.overflow() <= 0, bob.what_overflows()
        ann.tolerate_refusal(503)
        with watched() as promised:
            began = time.monotonic()
            pages[0].locator("#do-pause").click()
            expect(pages[0].locator("#notices")).to_contain_text("No worker reports")
            expect(pages[0].locator("#notices")).to_contain_text("Nothing was sent")
            answered = time.monotonic() - began
        stopwatch("a command was answered", answered)
        assert answered < promised(5)
    await_calm_head(pages)
    state(pages[0], "Healthy")
    one.await_states("RUNNING")


@pytest.fixture
def held(visitors: Visitors) -> tuple[Visitor, Route]:
    """Somebody whose page has a stream, and whose request for the head is under way."""
    visitor = visitors()
    page = visitor.go("/ui/connectors")
    visitor.await_live()
    return visitor, visitor.hold(SIGNS, lambda: page.evaluate(CHANGE))


def test_a_change_while_an_older_answer_is_under_way_is_shown(held: tuple[Visitor, Route]) -> None:
    visitor, old = held
    visitor.page.evaluate(CHANGE)
    with visitor.page.expect_request(SIGNS):
        old.fulfill(body='<p data-problem="old">It does not answer.</p>')
    expect(visitor.page.locator("[data-problem]")).to_have_count(0)


def test_a_head_that_could_not_be_fetched_is_fetched_later(held: tuple[Visitor, Route]) -> None:
    visitor, first = held
    visitor.tolerate_refusal(503)
    with visitor.page.expect_request(SIGNS):
        first.fulfill(status=503)


@pytest.mark.slow
def test_one_worker_is_killed_and_comes_back(visitors: Visitors, platform: Up, flow: Make, stopwatch: Note) -> None:
    one = flow(throughput=50)
    page = visitors().go("/ui/workers")
    here = one.worker_of()
    with processes.frozen([platform.lock_holder]):  # else it would be there again before anybody looked
        with watched() as promised:
            began = time.monotonic()
            os.kill(platform.pid(here), signal.SIGKILL)
            said = await_problem([page], f"silent-{here}", began)
        stopwatch("the killed worker was named", said)
        assert said < promised(SAID_WITHIN_SECONDS)
        expect(page.locator(f'[data-problem="silent-{here}"]')).to_contain_text("does not report")
    await_calm_head([page])


@pytest.mark.slow
def test_redis_is_frozen(visitors: Visitors, platform: Up, flow: Make, stopwatch: Note) -> None:
    """A frozen one refuses no connection: only its silence tells."""
    one = flow(throughput=50)
    visitor = visitors()
    visitor.tolerate_refusal(503)
    page = visitor.go(f"/ui/connectors/{one.name}")
    visitor.await_live()
    with processes.frozen([platform.pid("redis")]):
        began = time.monotonic()
        with watched() as promised:
            said = await_problem([page], "no-redis", began)
        stopwatch("said", said)
        assert said < promised(SAID_WITHIN_SECONDS)
        state(page, "Healthy")  # its tasks need no Redis, and the database goes on being told
        page.locator("#do-pause").click()
        expect(page.locator("#notices")).to_contain_text("Redis does not answer")
    await_calm_head([page])


@pytest.mark.slow
def test_kafka_is_frozen(visitors: Visitors, platform: Up, flow: Make, stopwatch: Note) -> None:
    one = flow(throughput=50)
    visitor = visitors()
    visitor.tolerate_refusal(503)
    page = visitor.go(f"/ui/connectors/{one.name}")
    visitor.await_live()
    with processes.frozen([platform.pid("kafka")]):
        began = time.monotonic()
        with watched() as promised:
            said = await_problem([page], "no-kafka", began)
        stopwatch("said", said)
        assert said < promised(SAID_WITHIN_SECONDS)
        state(page, "Unknown")
        with watched() as promised:
            began = time.monotonic()
            page.locator("#do-pause").click()
            expect(page.locator("#notices")).to_contain_text("Kafka does not answer")
            answered = time.monotonic() - began
        assert answered < promised(5)
    await_calm_head([page])
    eventually(lambda: one.states() == ["RUNNING", "RUNNING"], 60, lambda: str(one.status()))
