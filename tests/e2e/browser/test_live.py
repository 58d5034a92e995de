"""Changes reach open pages by themselves, and a page says when they cannot."""

import os
import re
import signal
import statistics
import time
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.browser.conftest import Visitors
from tests.e2e.browser.facts import await_more_records, state
from tests.e2e.browser.visitor import Visitor
from tests.e2e.flow import Flow
from tests.e2e.machine import watched
from tests.e2e.up import Up

Make = Callable[..., Flow]
Note = Callable[[str, float], None]
SEEN_WITHIN_SECONDS = 1.0
LOST_STREAM = r"net::ERR_|htmx[^ ]*\.js\)$"
"""How the browser and htmx put it."""
SAID_WITHIN_SECONDS = 14
"""In which a page says that it hears nothing: less than the 15 that are promised."""


@pytest.mark.thorough
def test_a_change_of_one_shows_in_the_browser_of_another(
    visitors: Visitors, platform: Up, flow: Make, stopwatch: Note
) -> None:
    """From the moment that it is written, as one page is told, until the other page shows it."""
    one = flow(throughput=50)
    ann, bob = visitors(), visitors()
    for each in (ann, bob):
        each.go(f"/ui/connectors/{one.name}")
        each.mark()
        each.await_live()
    taken = []
    with watched() as promised:
        for done, following in (("pause", "resume"), ("resume", "pause")) * 3:
            ann.page.evaluate("document.querySelector('#notices').replaceChildren()")
            ann.page.locator(f"#do-{done}").click()
            ann.page.wait_for_function("() => document.querySelector('#notices').textContent.includes('requested')")
            told = time.monotonic()
            bob.page.wait_for_function(f"() => document.querySelector('#do-{following}')")
            taken.append(time.monotonic() - told)
            ann.page.wait_for_function(f"() => document.querySelector('#do-{following}')")
    stopwatch("seen in the other browser, median", statistics.median(taken))
    stopwatch("seen in the other browser, slowest", max(taken))
    assert statistics.median(taken) < promised(SEEN_WITHIN_SECONDS)
    assert ann.stayed
    assert bob.stayed


def test_a_lost_connection_is_said_and_made_good(visitor: Visitor, platform: Up, flow: Make) -> None:
    visitor.tolerate(LOST_STREAM)
    one = flow(throughput=50)
    page = visitor.go(f"/ui/connectors/{one.name}")
    visitor.mark()
    visitor.await_live()
    os.kill(platform.pid("web"), signal.SIGKILL)
    live = page.locator("#live")
    expect(live).to_have_attribute("data-state", "lost")
    expect(live).to_contain_text("Reconnecting")
    state(page, "Healthy")  # what was known stays
    visitor.await_live()
    await_more_records(page)
    assert visitor.stayed


def second_later(page: Page) -> str:
    """What the page says of its connection after one more second of its paused clock."""
    page.clock.fast_forward(1000)
    return page.locator("#live").get_attribute("data-state") or ""


def test_a_server_that_does_not_answer_makes_the_page_stale(visitor: Visitor, platform: Up, flow: Make) -> None:
    """A frozen process breaks no connection: only the silence tells. The page's clock goes second by second past it."""
    visitor.tolerate(LOST_STREAM)
    one = flow(throughput=50)
    visitor.page.clock.install()
    page = visitor.go(f"/ui/connectors/{one.name}")
    visitor.mark()
    visitor.await_live()
    live = page.locator("#live")
    frozen = platform.pid("web")
    page.clock.pause_at(page.evaluate("Date.now()") / 1000 + 3)  # no time that this call could take leads to the past
    os.kill(frozen, signal.SIGSTOP)
    try:
        time.sleep(1)  # the last events that it sent arrive
        seen = [second_later(page) for _ in range(SAID_WITHIN_SECONDS)]
        assert seen == sorted(seen, key=["on", "lost", "stale"].index)
        assert {"lost", "stale"} <= {*seen}, seen
        expect(live).to_contain_text("Stale since")
        expect(page.locator("[data-live]").first).to_have_css("filter", "grayscale(1)")
        state(page, "Healthy")
    finally:
        os.kill(frozen, signal.SIGCONT)
        page.clock.resume()
    visitor.await_live()
    await_more_records(page)
    assert visitor.stayed


@pytest.mark.thorough
def test_one_refused_fetch_is_made_good_by_the_next(visitor: Visitor, platform: Up, flow: Make) -> None:
    """The stream stays open all the time: no new one can say that all is well again."""
    visitor.tolerate_refusal(503)
    one = flow(throughput=50)
    page = visitor.go(f"/ui/connectors/{one.name}")
    visitor.mark()
    visitor.await_live()
    part = re.compile(r"/ui/(?!events)")
    page.route(part, lambda route: route.fulfill(status=503))
    expect(page.locator("#live")).to_have_attribute("data-state", "lost")
    page.unroute(part)
    visitor.await_live()
    await_more_records(page)
    assert visitor.stayed


@pytest.mark.thorough
def test_new_entries_of_the_audit_trail_move_no_row(visitor: Visitor, platform: Up, flow: Make) -> None:
    one = flow(throughput=50)
    page = visitor.go("/ui/settings/audit")
    visitor.await_live()
    row = page.locator("tbody tr").first
    seen = row.get_attribute("id"), row.bounding_box(), page.locator("th").nth(4).bounding_box()
    platform.rest.settled(202, "PUT", f"/connectors/{one.name}/pause")
    more = page.get_by_role("link", name=re.compile("new entr"))
    expect(more).to_be_visible()
    assert seen == (row.get_attribute("id"), row.bounding_box(), page.locator("th").nth(4).bounding_box())
    more.click()
    expect(page.get_by_role("row", name=f"/connectors/{one.name}/pause")).to_be_visible()
    expect(more).to_have_count(0)
