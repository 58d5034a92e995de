"""The data browser: one line for a record, the whole record beside the table, and times in the reader's zone."""

import re

import pytest
from playwright.sync_api import expect

from tests.e2e.browser import axe
from tests.e2e.browser.scene import Scene
from tests.e2e.browser.visitor import Visitor


@pytest.mark.thorough
def test_a_record_opens_beside_the_table_and_the_arrows_go_on(visitor: Visitor, scene: Scene) -> None:
    page = visitor.go(f"/ui/topics/{scene.names['running']}")
    page.get_by_role("button", name="Read records").click()
    rows = page.locator("tr.record")
    expect(rows.nth(2)).to_be_visible()
    assert max(row.bounding_box()["height"] for row in rows.all()[:10]) <= 40, "one line"  # type: ignore[index]
    rows.first.locator("[data-inspect]").click()
    inspector = page.get_by_role("dialog", name="Record")
    places = [
        f"{row.locator('[data-label=Partition]').inner_text()}:{row.locator('[data-label=Offset]').inner_text().strip()}"
        for row in rows.all()[:2]
    ]
    expect(inspector.get_by_role("heading", level=2)).to_contain_text(places[0])
    page.keyboard.press("ArrowDown")
    expect(inspector.get_by_role("heading", level=2)).to_contain_text(places[1])
    assert axe.all_rules(page) == []
    inspector.get_by_role("button", name="Origin of").click()
    expect(inspector.locator(".origin")).to_contain_text(re.compile("generation", re.IGNORECASE))
    page.keyboard.press("Escape")
    expect(rows.nth(1).locator("[data-inspect]")).to_be_focused()


@pytest.mark.thorough
def test_a_time_is_picked_in_the_readers_zone(visitor: Visitor, scene: Scene) -> None:
    page = visitor.go(f"/ui/topics/{scene.names['running']}")
    page.get_by_label("From").select_option("time")
    page.get_by_label("Time", exact=True).fill("2026-01-02T03:04:05")
    sent = page.locator("#time").input_value()
    assert sent == page.evaluate("new Date(2026, 0, 2, 3, 4, 5).toISOString()")
    with page.expect_request("**/records") as asked:
        page.get_by_role("button", name="Read records").click()
    assert "from=time" in (asked.value.post_data or "")
    expect(page.locator("#records-title")).to_be_visible()
