"""A bare page in Chromium that holds the HTML of a test and the script that it is about: no server, no network."""

from collections.abc import Callable, Iterator
from pathlib import Path

import django_htmx
import pytest
from playwright.sync_api import Browser, Page

from tests.e2e.browser import chromium as program
from tests.e2e.browser.chromium import chromium
from tests.support.cases import tests_in

__all__ = ["chromium"]

STATIC = Path(__file__).resolve().parents[2] / "static" / "ringfence"
HTMX = Path(django_htmx.__file__).parent / "static" / "django_htmx" / "htmx-2.min.js"
Open = Callable[..., Page]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if program.find() is None:
        for item in tests_in(Path(__file__).parent, items):
            item.add_marker(pytest.mark.skip(reason=f"There is no Chromium on the PATH: {program.HOW_TO_INSTALL}"))


@pytest.fixture
def opened(chromium: Browser) -> Iterator[Open]:
    """`opened(html, "morph.js")`: a page with that body, htmx and these scripts. Its errors fail the test.

    now_ms: the browser's clock, which the test moves; server_ms: the server's when it made the page.
    """
    errors: list[str] = []
    page = chromium.new_page()
    page.on("pageerror", lambda error: errors.append(str(error)))

    def open_page(body: str, *scripts: str, now_ms: int | None = None, server_ms: int | None = None) -> Page:
        if now_ms is not None:
            page.clock.install(time=now_ms / 1000 - 3600)
            page.clock.pause_at(now_ms / 1000)
        head = "<body>" if server_ms is None else f'<body data-now="{server_ms}">'
        page.set_content(f"<!DOCTYPE html><html>{head}{body}</body></html>")
        for path in (HTMX, *(STATIC / name for name in scripts)):
            page.add_script_tag(path=path)
        return page

    try:
        yield open_page
        assert errors == []
    finally:
        page.close()
