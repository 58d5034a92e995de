"""axe-core's rules for WCAG 2.2 AA on a page as it stands."""

from functools import cache
from importlib.resources import files
from typing import Any

from playwright.sync_api import Page

TAGS = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")
COLOURS = ("color-contrast", "link-in-text-block")
"""The rules of those tags that a theme can break."""
_SIZES = ("target-size", "scrollable-region-focusable")
_RUN = """([kind, values]) => axe.run(document, {runOnly: {type: kind, values}, resultTypes: ["violations"]})"""


@cache
def _source() -> str:
    return (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")


def _violations(page: Page, kind: str, values: tuple[str, ...]) -> list[str]:
    if not page.evaluate("typeof axe === 'object'"):
        page.evaluate(_source())
    found: dict[str, Any] = page.evaluate(_RUN, [kind, list(values)])
    return [_told(violation) for violation in found["violations"]]


def _told(violation: dict[str, Any]) -> str:
    """A rule with where it is broken, and what axe would do about it."""
    nodes = [f"{node['target']}: {node['html'][:160]} ({node['failureSummary']})" for node in violation["nodes"][:4]]
    return f"{violation['id']} ({violation['impact']}), {len(violation['nodes'])} places: " + "; ".join(nodes)


def all_rules(page: Page) -> list[str]:
    """Every rule of WCAG 2.2 AA that a program can check."""
    return _violations(page, "tag", TAGS)


def colours(page: Page) -> list[str]:
    """The rules about colours alone: the others cannot change with the theme."""
    return _violations(page, "rule", COLOURS)


def both_themes(page: Page) -> list[str]:
    """Every rule in light, and those about colours in dark, too."""
    found = all_rules(page)
    page.emulate_media(color_scheme="dark", reduced_motion="reduce")  # no colour half-way
    found += [f"dark: {violation}" for violation in colours(page)]
    page.emulate_media(color_scheme="light")
    return found


def sizes(page: Page) -> list[str]:
    """The rules that a narrower window can break."""
    return _violations(page, "rule", _SIZES)
