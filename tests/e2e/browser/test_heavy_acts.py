"""Heavy acts say what they will do, and ask for a reason, and for the name where something is lost; what then changes
is what was shown. All of them ask in the same dialog.
"""

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
    page.get_by_role("link", name="Fence", exact=True).click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("link", name="Cancel")).to_be_focused()
    expect(dialog).to_contain_text("transactional ids fenced")
    expect(dialog).not_to_contain_text("to confirm")  # nothing is lost
    dialog.get_by_label(re.compile("^Reason")).fill("a browser test")
    dialog.get_by_role("button", name="Fence all tasks").click()
    expect(dialog.get_by_role("status").filter(has_text="The round is over")).to_contain_text("audit trail")
    dialog.get_by_role("link", name="Close").click()
    await_later_generation(page, made)
    state(page, "Healthy")
    one.settle()


@pytest.mark.thorough
def test_many_are_deleted_after_one_question(visitor: Visitor, platform: Up, flow: Make) -> None:
    made = [flow("bulk", throughput=5) for _ in range(2)]
    page = visitor.go("/ui/connectors?q=bulk-")
    for one in made:
        page.locator(f'[data-row="{one.name}"] input[name=connector]').check()
    page.locator("#bulk").get_by_role("button", name="Stop", exact=True).click()
    dialog = page.get_by_role("dialog", name="Stop 2 connectors?")
    expect(dialog).to_contain_text("This affects 2 tasks.")
    dialog.get_by_role("link", name="Cancel").click()
    expect(dialog).to_have_count(0)
    page.locator("#bulk").get_by_role("button", name="Delete", exact=True).click()
    confirm(page.get_by_role("dialog"), "delete 2", "Delete")
    expect(page.locator("#bulk-results")).to_contain_text("Done for 2 connectors")
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert not {one.name for one in made} & set(platform.rest.expect(200, "GET", "/connectors"))
