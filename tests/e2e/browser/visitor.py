"""Somebody with a browser of their own, and whatever the browser had to complain about in the meantime."""

import re
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Request,
    Route,
    ViewportSize,
    WebError,
    expect,
)

from tests.support.waiting import eventually

WIDE, NARROW = 1280, 375
PATIENCE_MS = 30_000
"""For every condition that a test waits for; only a failure takes as long."""
_SHIFTS = """() => new Promise((done) => {
  let sum = 0;
  const add = (list) => { for (const each of list.getEntries()) if (!each.hadRecentInput) sum += each.value; };
  new PerformanceObserver(add).observe({ type: "layout-shift", buffered: true });
  requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => done(sum), 50)));
})"""
_MARK = "window.stayedHere = true"
# Who leaves a page leaves its requests; htmx says that twice. What fails by itself says more than the first of these.
_LEFT = re.compile(r"htmx:(afterRequest|sendAbort)\b")

expect.set_options(timeout=PATIENCE_MS)


class Visitor:
    """A fresh browser context with one page. `complaints` must be empty in the end."""

    def __init__(
        self, browser: Browser, base: str, *, width: int = WIDE, theme: str = "light", zone: str | None = None
    ) -> None:
        """zone: the browser's time zone; None for this machine's."""
        self._base = base
        self._tolerated = [_LEFT]
        self._heard: list[str] = []
        self._window: ViewportSize = {"width": width, "height": 900}
        self.context: BrowserContext = browser.new_context(
            base_url=base,
            viewport=self._window,
            color_scheme="dark" if theme == "dark" else "light",
            reduced_motion="reduce",
            timezone_id=zone,
        )
        self.context.set_default_timeout(PATIENCE_MS)
        self.context.on("console", self._console)
        self.context.on("weberror", self._error)
        self.context.on("request", self._request)
        self.page: Page = self.context.new_page()

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self._heard.append(f"console, {message.type}: {message.text} ({message.location.get('url', '')})")

    def _error(self, error: WebError) -> None:
        self._heard.append(f"error in a script: {error.error}")

    def _request(self, request: Request) -> None:
        if not request.url.startswith((self._base + "/", "data:", "blob:")):
            self._heard.append(f"a request to another server: {request.url}")

    def begin_anew(self) -> None:
        """As a new visitor with an empty cache, which takes longer to make."""
        self.page.goto("about:blank")
        session = self.context.new_cdp_session(self.page)
        session.send("Network.clearBrowserCache")
        session.send("Storage.clearDataForOrigin", {"origin": self._base, "storageTypes": "all"})
        session.detach()
        self.page.set_viewport_size(self._window)
        self._heard.clear()
        self._tolerated = [_LEFT]

    def tolerate(self, pattern: str) -> None:
        """The test provokes this complaint."""
        self._tolerated.append(re.compile(pattern))

    def tolerate_refusal(self, status: int) -> None:
        """The test provokes an answer with this status; the browser and htmx put it on the console."""
        self.tolerate(rf"status of {status}|Status Error Code {status}")

    @property
    def complaints(self) -> list[str]:
        """Broken rules of the content security policy, errors of scripts, warnings, requests to other servers."""
        return [heard for heard in self._heard if not any(known.search(heard) for known in self._tolerated)]

    def go(self, path: str) -> Page:
        """Open an address, and wait until its scripts have run."""
        self.page.goto(path, wait_until="domcontentloaded")
        return self.page

    def mark(self) -> None:
        """From here on a reload of the page shows in `stayed`."""
        self.page.evaluate(_MARK)

    @property
    def stayed(self) -> bool:
        """Whether the page is the same document as at `mark`."""
        return bool(self.page.evaluate("window.stayedHere === true"))

    def await_live(self) -> None:
        """Wait until the page hears of changes."""
        expect(self.page.locator("#live")).to_have_attribute("data-state", "on")

    def overflow(self) -> int:
        """By how many pixels the page is wider than its window."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))

    def shift(self) -> float:
        """The cumulative layout shift of the page."""
        return float(self.page.evaluate(_SHIFTS))

    def what_overflows(self) -> list[str]:
        """The elements that stick out."""
        found: list[str] = self.page.evaluate(
            "[...document.querySelectorAll('main *')].filter(one => one.getBoundingClientRect().right > innerWidth)"
            ".map(one => one.outerHTML.slice(0, 90)).slice(0, 6)"
        )
        return found

    def hold(self, url: str, act: Callable[[], object], text: str = "") -> Route:
        """The first request to `url` after `act` with `text` in its body: it waits for its answer."""
        held: list[Route] = []

        def take(route: Route) -> None:
            if held or text not in (route.request.post_data or ""):
                route.continue_()
            else:
                held.append(route)

        self.page.route(url, take)
        act()
        # `take` runs during any call of Playwright's.
        eventually(lambda: self.page.title() and held, 30, f"a request to {url}")
        return held[0]

    def keep_evidence(self, folder: Path, name: str) -> None:
        """What the page shows, for whoever looks into a failure."""
        folder.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=folder / f"{name}.png", full_page=True)
        (folder / f"{name}.html").write_text(self.page.content())

    def close(self) -> None:
        self.context.close()
