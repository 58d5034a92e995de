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
    """The generation, as the facts show it."""
    return int(_fact(page, "Generation"))


def _fact(page: Page, term: str) -> str:
    fact = page.locator("dl.facts > div").filter(has=page.get_by_text(term, exact=True))
    return fact.locator("dd").first.inner_text()


def await_later_generation(page: Page, before: int) -> None:
    """Wait until the facts show a generation after that one."""
    expect(page.locator("dl.facts")).to_contain_text("older ones fenced")
    page.wait_for_function(
        "before => [...document.querySelectorAll('dl.facts > div')].some(fact =>"
        " fact.querySelector('dt').textContent === 'Generation'"
        " && Number(fact.querySelector('dd').textContent) > before)",
        arg=before,
    )
