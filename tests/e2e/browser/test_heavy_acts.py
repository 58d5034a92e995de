"""Heavy acts say what they will do, and ask for a reason and the name; what then changes is what was shown."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e.browser.facts import await_later_generation, generation, state
from tests.e2e.browser.visitor import Visitor
from tests.e2e.checker import source_offsets
from tests.e2e.flow import OFFSETS, Flow
from tests.e2e.up import Up

Make = Callable[..., Flow]


def confirm(part: Page | Locator, name: str, button: str) -> None:
    """Give a reason and type the name; before that the button is shut."""
    act = part.get_by_role("button", name=button, exact=True)
    part.get_by_label(re.compile("^Reason")).fill("a browser test")
    expect(act).to_be_disabled()
    part.get_by_label(f"Type {name} to confirm").press_sequentially(name)
    act.click()


@pytest.mark.thorough
def test_an_offset_is_moved_and_the_move_is_undone(visitor: Visitor, platform: Up, flow: Make) -> None:
    one = flow(throughput=50)
    page = visitor.go(f"/ui/connectors/{one.name}")
    page.get_by_role("button", name="Stop", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Stop", exact=True).click()
    state(page, "Stopped")
    page.get_by_role("navigation", name=f"About {one.name}").get_by_role("link", name="Data", exact=True).click()
    page.locator("#tab-offsets > summary").click()
    before = source_offsets(platform.connection, OFFSETS, one.name)
    page.get_by_role("link", name="Edit as JSON").click()
    box = page.get_by_label("Offsets", exact=True)
    expect(box).to_have_value(re.compile(str(before[0])))
    box.fill(box.input_value().replace(str(before[0]), "123456"))
    page.get_by_role("button", name="Before and after").click()
    preview = page.locator("#preview")
    expect(preview.get_by_role("row", name=re.compile("123456"))).to_contain_text(str(before[0]))
    confirm(preview, one.name, "Change")
    expect(page.locator("#notices")).to_contain_text("Audit entry")
    assert source_offsets(platform.connection, OFFSETS, one.name) == {0: 123456}
    page.locator("#notices").get_by_role("link", name="Undo").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("123456")
    confirm(dialog, one.name, "Restore")
    expect(dialog).to_have_count(0)
    expect(page.get_by_role("table", name=re.compile("Committed source offsets"))).to_contain_text(str(before[0]))
    assert source_offsets(platform.connection, OFFSETS, one.name) == before
    page.get_by_role("button", name="Resume").click()
    state(page, "Healthy")
    one.settle()  # from there, as if nothing had been moved


def test_a_forced_fence_makes_a_new_generation_that_goes_on(visitor: Visitor, platform: Up, flow: Make) -> None:
    one = flow(throughput=50)
    page = visitor.go(f"/ui/connectors/{one.name}")
    made = generation(page)
    visitor.go(f"/ui/connectors/{one.name}/fence")
    confirm(page, one.name, "Fence all tasks")
    expect(page.get_by_role("status").filter(has_text="The round is over")).to_contain_text("audit trail")
    visitor.go(f"/ui/connectors/{one.name}")
    await_later_generation(page, made)
    state(page, "Healthy")
    one.settle()
