"""Pages without a mouse."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.browser import axe
from tests.e2e.browser.scene import Scene
from tests.e2e.browser.visitor import NARROW, Visitor
from tests.e2e.flow import Flow
from tests.e2e.up import Up

pytestmark = pytest.mark.thorough
Make = Callable[..., Flow]


def test_the_first_key_skips_to_the_content(visitor: Visitor, scene: Scene) -> None:
    page = visitor.go(f"/ui/connectors/{scene.names['running']}")
    page.keyboard.press("Tab")
    link = page.get_by_role("link", name="Skip to the content")
    expect(link).to_be_focused()
    expect(link).to_be_in_viewport()
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()


def test_a_slash_goes_to_the_search_and_the_list_follows(visitor: Visitor, scene: Scene) -> None:
    page = visitor.go("/ui/connectors")
    visitor.mark()
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.type(scene.names["stopped"])
    expect(page.get_by_role("link", name=scene.names["stopped"], exact=True)).to_be_visible()
    expect(page.get_by_role("link", name=scene.names["running"], exact=True)).to_have_count(0)
    assert visitor.stayed
    expect(page).to_have_url(re.compile(f"/ui/connectors.*[?&]q={scene.names['stopped']}"))


def test_a_dialog_takes_the_focus_and_gives_it_back(visitor: Visitor, scene: Scene) -> None:
    page = visitor.go(f"/ui/connectors/{scene.names['running']}")
    opener = page.get_by_role("button", name="Stop", exact=True)
    opener.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("link", name="Cancel")).to_be_focused()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(opener).to_be_focused()
    page.keyboard.press("r")
    expect(page.get_by_role("dialog", name=f"Restart {scene.names['running']}?")).to_be_visible()


def test_rows_are_walked_and_opened_by_keys(visitor: Visitor, scene: Scene) -> None:
    visitor.page.route("**/ui/events*", lambda _: None)  # nothing refreshes the list but the test
    page = visitor.go("/ui/connectors?sort=name&q=" + scene.names["running"].removeprefix("running"))
    names = page.locator("[data-row] th a")
    first = names.first.inner_text()
    page.keyboard.press("j")
    expect(names.first).to_be_focused()
    fetch_the_list_anew(page)
    expect(names.first).to_be_focused()
    page.keyboard.press("j")
    page.keyboard.press("k")
    expect(names.first).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(first)


def fetch_the_list_anew(page: Page) -> None:
    """As a change of any connector does, at any moment. The row must be the same one afterwards, not one like it."""
    page.evaluate("document.querySelector('[data-row]').sameRow = true")
    page.evaluate(
        "new Promise((done) => {"
        "  document.body.addEventListener('htmx:afterSettle', () => done(true), { once: true });"
        "  document.body.dispatchEvent(new CustomEvent('ringfence-refresh'));"
        "})"
    )
    assert page.evaluate("document.querySelector('[data-row]').sameRow === true")


def test_a_question_mark_lists_the_keys_and_they_can_be_switched_off(visitor: Visitor, scene: Scene) -> None:
    page = visitor.go("/ui/connectors")
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keyboard shortcuts")
    expect(dialog).to_be_visible()
    assert axe.all_rules(page) == []
    dialog.get_by_label("Enable shortcuts").uncheck()
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).not_to_be_focused()


def test_the_palette_finds_every_page_of_the_navigation_or_says_that_nothing_is_found(visitor: Visitor) -> None:
    page = visitor.go("/ui/workers")
    page.keyboard.press("Control+k")
    field = page.locator("#palette-q")
    for words in ("audit", "session", "token"):
        field.fill(words)
        expect(page.get_by_role("option", selected=True)).to_contain_text(re.compile(words, re.IGNORECASE))
    field.fill("there is nothing of this name")
    expect(page.locator("#palette-told")).to_have_text("Nothing found")
    expect(page.locator("#palette-told")).to_be_in_viewport()
    page.keyboard.press("Escape")


def test_the_palette_finds_pages_while_the_server_does_not_answer_and_says_so(visitor: Visitor) -> None:
    visitor.tolerate_refusal(503)
    page = visitor.go("/ui/workers")
    page.route("**/ui/find*", lambda route: route.fulfill(status=503))
    page.keyboard.press("Control+k")
    page.locator("#palette-q").fill("connectors")
    expect(page.locator("#palette-told")).to_contain_text("The server does not answer")
    expect(page.locator("#palette-told")).to_be_in_viewport()
    expect(page.get_by_role("option", selected=True)).to_contain_text("Connectors")


def test_the_palette_finds_a_connector_and_opens_it(visitor: Visitor, scene: Scene) -> None:
    page = visitor.go("/ui/workers")
    page.keyboard.press("Control+k")
    field = page.get_by_role("combobox")
    expect(field).to_be_focused()
    field.press_sequentially(scene.names["stopped"])
    expect(page.get_by_role("option", selected=True)).to_contain_text(scene.names["stopped"])
    assert axe.all_rules(page) == []
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(scene.names["stopped"])


def test_enter_before_the_answer_opens_what_the_answer_selects(visitor: Visitor, scene: Scene) -> None:
    page = visitor.go("/ui/workers")
    with page.expect_response("**/ui/find*"):
        page.keyboard.press("Control+k")
    late = visitor.hold("**/ui/find*", lambda: page.get_by_role("combobox").fill(scene.names["stopped"]))
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    late.continue_()
    expect(page.get_by_role("heading", level=1)).to_have_text(scene.names["stopped"])


@pytest.mark.slow
@pytest.mark.parametrize("width", [1440, NARROW])
def test_the_palette_pauses_a_connector_once_it_was_confirmed(
    visitor: Visitor, platform: Up, flow: Make, width: int
) -> None:
    flown = flow()
    page = visitor.go("/ui/workers")
    page.set_viewport_size({"width": width, "height": 900})
    page.keyboard.press("Control+k")
    page.get_by_role("combobox").press_sequentially(f"{flown.name} pau")  # in any order
    expect(page.get_by_role("option", selected=True)).to_contain_text(f"Pause {flown.name}")
    assert visitor.overflow() == 0
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name=f"Pause {flown.name}?")).to_be_visible()
    expect(page.get_by_role("dialog")).to_contain_text("1 of 1 task running")
    expect(page.get_by_role("link", name="Cancel")).to_be_focused()
    assert platform.rest.status(flown.name)["connector"]["state"] == "RUNNING", "it asks first"
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("#notices")).to_contain_text("Pause requested")
    expect(page.get_by_role("heading", level=1)).to_have_text("Workers")  # in place
    flown.await_states("PAUSED")


def test_the_palette_begins_with_what_was_opened_lately(visitor: Visitor, scene: Scene) -> None:
    visitor.go(f"/ui/connectors/{scene.names['stopped']}/offsets")
    page = visitor.go("/ui/workers")
    page.keyboard.press("Control+k")
    first = page.get_by_role("option").first
    expect(first).to_contain_text(scene.names["stopped"])
    expect(first).to_contain_text("opened lately")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(scene.names["stopped"])
    expect(page).to_have_url(re.compile(f"/ui/connectors/{scene.names['stopped']}$"))
