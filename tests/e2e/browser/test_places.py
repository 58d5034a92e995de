"""Five places to work: beside the page, at the bottom of a phone; a connector's tabs, whose sections open in place."""

import pytest
from playwright.sync_api import expect

from tests.e2e.browser import axe
from tests.e2e.browser.conftest import Visitors
from tests.e2e.browser.scene import Scene
from tests.e2e.browser.visitor import NARROW, Visitor

PLACES = ["Home", "Connectors", "Data", "Incidents", "Cluster"]


def test_a_phone_has_the_places_at_the_bottom_in_reach_of_a_thumb(visitors: Visitors, scene: Scene) -> None:
    visitor = visitors(width=NARROW)
    page = visitor.go(f"/ui/connectors/{scene.names['running']}")
    links = page.get_by_role("navigation", name="Main").get_by_role("link")
    assert [each.split("\n")[0] for each in links.all_inner_texts()] == PLACES
    for link in links.all():
        box = link.bounding_box()
        assert box is not None
        assert box["y"] > 800 - 40, "at the bottom"
        assert box["width"] >= 44
        assert box["height"] >= 44
        assert 0 <= box["x"] <= NARROW - box["width"], "none has to be scrolled to"
    page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
    expect(links.first).to_be_in_viewport()
    footer = page.locator("footer").bounding_box()
    assert footer is not None
    assert visitor.overflow() <= 0, visitor.what_overflows()
    links.nth(2).click()
    expect(page.get_by_role("navigation", name="Pages of this place").get_by_role("link")).to_have_text(
        ["Topics", "Consumer groups", "Share groups"]
    )


@pytest.mark.parametrize(
    ("address", "button"), [("/ui/new?class=VerifiableSource", "#create"), ("/ui/connectors/{running}/edit", "#save")]
)
def test_a_form_on_a_phone_has_its_button_above_the_places(
    visitors: Visitors, scene: Scene, address: str, button: str
) -> None:
    page = visitors(width=NARROW).go(address.format(**scene.names))
    create = page.locator(button)
    expect(create).to_be_in_viewport(ratio=1)
    on_top = "one => { const box = one.getBoundingClientRect(); return one.contains("
    on_top += "document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2)); }"
    assert create.evaluate(on_top), "nothing covers it"
    page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
    assert create.evaluate(on_top), "nothing covers it at the end, either"


@pytest.mark.thorough
def test_a_connector_has_one_row_of_tabs_and_its_sections_open_in_place(visitor: Visitor, scene: Scene) -> None:
    name = scene.names["running"]
    page = visitor.go(f"/ui/connectors/{name}")
    tabs = page.get_by_role("navigation", name=f"About {name}")
    expect(tabs.get_by_role("link")).to_have_text(["Overview", "Data", "Pipeline", "Exactly once", "History"])
    tabs.get_by_role("link", name="Data").click()
    visitor.mark()
    page.locator("#tab-offsets summary").click()
    expect(page.locator("#section-offsets")).to_contain_text("seqno")
    page.locator("#tab-dead-letters summary").click()
    expect(page.locator("#section-dead-letters")).to_contain_text("keeps no dead letters")
    assert visitor.stayed
    assert axe.all_rules(page) == []
    tabs.get_by_role("link", name="Exactly once").click()
    page.locator("#tab-generations summary").click()
    expect(page.locator("#section-generations")).to_contain_text("Generation")
    tabs.get_by_role("link", name="History").click()
    page.locator("#section-timeline").get_by_role("link", name="Tasks").click()
    expect(page).to_have_url(f"{page.url.split('/ui/')[0]}/ui/connectors/{name}/timeline?kind=task&hours=1")
