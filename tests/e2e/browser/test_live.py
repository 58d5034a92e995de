"""Changes reach open pages by themselves, and a page says when they cannot."""

import os
import signal
import statistics
import time
from collections.abc import Callable

from playwright.sync_api import expect

from tests.e2e.browser.conftest import Visitors
from tests.e2e.browser.facts import await_more_records, state
from tests.e2e.browser.visitor import Visitor
from tests.e2e.flow import Flow
from tests.e2e.machine import promised
from tests.e2e.up import Up

Make = Callable[..., Flow]
Note = Callable[[str, float], None]
SEEN_WITHIN_SECONDS = 1.0


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
    visitor.tolerate(r"net::ERR_|htmx[^ ]*\.js\)$")  # how the browser and htmx put it
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
