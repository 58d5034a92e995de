"""The browser tests look at every page: a route that answers GET is in their list, or it is said to be no page."""

from collections.abc import Iterator, Sequence
from typing import Any

from django.urls import URLPattern, URLResolver, get_resolver, resolve

from ringfence.access.authorise import declarations
from tests.e2e.browser.pages import NO_PAGES, PAGES

_NAMES = {"running": "a", "failed": "b", "stopped": "c", "group": "g", "queue": "q", "readers": "r", "snapshot": "1"}
_FOR_PEOPLE = ("ui", "api/docs")


def _answering(patterns: Sequence[URLPattern | URLResolver], prefix: str = "") -> Iterator[str]:
    """The routes that answer GET."""
    for pattern in patterns:
        route = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from _answering(pattern.url_patterns, route)
        elif "GET" in declarations(pattern.callback):
            yield route


def _resolved(address: str) -> Any:
    return resolve(address.format(**_NAMES).partition("?")[0]).route


def test_every_page_is_in_the_list_of_the_browser_tests() -> None:
    routes = {route for route in _answering(get_resolver().url_patterns) if route.startswith(_FOR_PEOPLE)}
    listed = {_resolved(address) for name, address in PAGES.items() if name != "nothing there"}
    assert routes - NO_PAGES == listed
