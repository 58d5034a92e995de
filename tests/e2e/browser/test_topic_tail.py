"""A topic that is followed in the browser: new records come by themselves, at both widths, until one stops it."""

import pytest
from playwright.sync_api import expect

from tests.e2e.browser import axe
from tests.e2e.browser.scene import Scene
from tests.e2e.browser.visitor import NARROW, Visitor


@pytest.mark.slow
@pytest.mark.parametrize("width", [1440, NARROW])
def test_records_come_while_a_topic_is_followed(visitor: Visitor, scene: Scene, width: int) -> None:
    page = visitor.go(f"/ui/topics/{scene.names['running']}")
    page.set_viewport_size({"width": width, "height": 900})
    page.get_by_role("button", name="Follow").click()
    rows = page.locator("#tail-rows tr")
    expect(rows.first).to_be_visible()
    before = [int(text) for text in page.locator("#tail-rows td[data-label=Offset]").all_inner_texts()]
    page.wait_for_function(
        "newest => [...document.querySelectorAll('#tail-rows td[data-label=Offset]')]"
        ".some(cell => Number(cell.innerText) > newest)",
        arg=max(before),
    )
    assert visitor.overflow() == 0
    if width != NARROW:
        assert axe.all_rules(page) == []
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("#tail-next")).to_have_count(0)
    expect(page.locator("#tail-state")).to_contain_text("Stopped")
    places = page.locator("#tail-rows tr").evaluate_all(
        "rows => rows.map(row => ['Partition', 'Offset']"
        ".map(name => row.querySelector(`[data-label=${name}]`).innerText).join(':'))"
    )
    assert len(set(places)) == len(places), "a record is shown once"
