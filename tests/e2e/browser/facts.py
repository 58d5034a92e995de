"""What a connector's page says about it, and waiting until it says something else, by itself."""

import re

from playwright.sync_api import Page, expect


def state(page: Page, word: str) -> None:
    """Wait until the connector's facts say so."""
    expect(page.locator("dl.facts .chip").first).to_have_text(word)


def records(page: Page) -> int:
    """All records so far, as the facts show them."""
    return int(re.sub(r"\D", "", page.locator("dl.facts").get_by_text(re.compile("in all$")).inner_text()))


def await_more_records(page: Page) -> None:
    """Wait until the number of records goes up, by itself."""
    before = records(page)
    page.wait_for_function(
        "before => Number(/([\\d,]+) in all/.exec(document.querySelector('dl.facts').textContent)[1]"
        ".replaceAll(',', '')) > before",
        arg=before,
    )


def generation(page: Page) -> int:
    """The generation that the facts are of."""
    return int(page.locator("dl.facts").get_attribute("data-generation") or 0)


def await_later_generation(page: Page, before: int) -> None:
    """Wait until the facts are of a generation after that one."""
    page.wait_for_function(
        "before => Number(document.querySelector('dl.facts').dataset.generation) > before", arg=before
    )
