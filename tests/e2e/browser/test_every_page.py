"""Each page in light, dark and narrow: no violation of WCAG 2.2 AA, nothing to scroll sideways, light to load."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.e2e.browser import axe
from tests.e2e.browser.conftest import has_failed
from tests.e2e.browser.pages import CONSOLE, FIRST, PAGES, SELDOM, STATUS
from tests.e2e.browser.scene import Scene
from tests.e2e.browser.visitor import NARROW, Visitor
from tests.e2e.conftest import await_calm
from tests.e2e.up import Up
from tests.support.cases import mark_cases

LIMIT_BYTES = 90_000
"""Of a first visit, with script, style and type."""
LONG_BYTES = 150_000
"""Of documents, whose text is long."""
MOST_SHIFT = 0.005
"""Cumulative layout shift: 0.1 is called good."""


class Scales:
    """The bytes that came over the wire for a page with an empty cache."""

    def __init__(self, page: Page) -> None:
        self.bytes = 0
        session = page.context.new_cdp_session(page)
        session.on("Network.loadingFinished", self._finished)
        session.send("Network.enable")

    def _finished(self, event: dict[str, Any]) -> None:
        self.bytes += int(event["encodedDataLength"])


@pytest.fixture(scope="module")
def _anybody(chromium: Browser, shared_up: Up) -> Iterator[Visitor]:
    await_calm(shared_up)
    made = Visitor(chromium, shared_up.rest.url)
    yield made
    made.close()


@pytest.fixture
def visitor(_anybody: Visitor, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Visitor]:
    """Who has seen no page before: nothing is changed here, so that one browser context does for all."""
    _anybody.begin_anew()
    yield _anybody
    if has_failed(request):
        _anybody.keep_evidence(tmp_path, "visitor")
    assert _anybody.complaints == []


_SLOW = SELDOM | ({name for name in PAGES if name.startswith("console")} - CONSOLE)


@pytest.mark.parametrize("name", mark_cases(PAGES, slow=_SLOW, thorough=PAGES.keys() - FIRST))
def test_a_page_is_for_everybody(visitor: Visitor, scene: Scene, name: str) -> None:
    scales = Scales(visitor.page)
    if name in STATUS:
        visitor.tolerate_refusal(STATUS[name])
    page = visitor.go(PAGES[name].format(**scene.names))
    page.wait_for_load_state("load")
    weight, shift = scales.bytes, visitor.shift()
    found = axe.both_themes(page)
    page.set_viewport_size({"width": NARROW, "height": 800})
    found += [f"narrow: {violation}" for violation in axe.sizes(page)]
    if wider := visitor.overflow():
        found.append(f"narrow: {wider} pixels wider than the window: {visitor.what_overflows()}")
    if weight > (LONG_BYTES if name.startswith("documentation") else LIMIT_BYTES):
        found.append(f"{weight} bytes")
    if shift > MOST_SHIFT:
        found.append(f"layout shift {shift:.4f}")
    assert found == [], "\n".join(found)
