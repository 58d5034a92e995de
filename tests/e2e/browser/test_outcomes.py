"""Each act says where the eye is what came of it, and the table beside it shows the new value."""

import json
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.browser.conftest import Visitors
from tests.e2e.browser.facts import state
from tests.e2e.browser.visitor import NARROW, WIDE
from tests.e2e.flow import Flow
from tests.e2e.up import Up
from tests.support.waiting import eventually

Make = Callable[..., Flow]


def notice(page: Page, text: str) -> None:
    """One notice, in sight."""
    expect(page.locator("#notices > .alert")).to_have_count(1)
    expect(page.locator("#notices > .alert")).to_contain_text(text)
    expect(page.locator("#notices > .alert")).to_be_in_viewport(ratio=1)


def place_of(page: Page) -> list[float]:
    """Where the head of the page and its facts are."""
    found: list[float] = page.evaluate(
        "['h1', 'dl.facts', '.tabs'].map(one => document.querySelector(`main ${one}`).getBoundingClientRect().top)"
    )
    return found


@pytest.mark.thorough
@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_an_offset_is_changed_and_the_table_shows_it(visitors: Visitors, platform: Up, flow: Make, width: int) -> None:
    one = flow(throughput=50)
    platform.rest.settled(204, "PUT", f"/connectors/{one.name}/stop")
    one.tasks = 0
    one.await_states("STOPPED")
    visitor = visitors(width=width)
    page = visitor.go(f"/ui/connectors/{one.name}/offsets")
    visitor.mark()
    visitor.await_live()
    expect(page.locator("#do-edit-offsets")).to_be_visible()
    page.locator("#do-edit-offsets").click()
    editor = page.locator("#editor textarea")
    editor.fill(json.dumps({"offsets": [{"partition": {"id": 0}, "offset": {"seqno": 7}}]}))
    page.locator("#editor").get_by_role("button", name="Before and after").click()
    page.locator("#preview-reason").fill("a test")
    page.locator("#preview-confirm").fill(one.name)
    page.locator("#preview").get_by_role("button", name="Change").click()
    notice(page, "1 offset changed")
    expect(page.locator("#editor")).to_be_empty()  # nothing stays armed
    expect(page.locator('#tab-body td[data-label="Offset"]').first).to_have_text("seqno: 7")
    assert page.get_by_text("has changed since this page was loaded").count() == 0
    assert visitor.stayed
    one.begin_anew(8)
    page.locator("#do-resume").click()
    notice(page, "Resume requested")
    one.tasks = 1
    state(page, "Healthy")
    # It runs on, and so does the table.
    expect(page.locator('#tab-body td[data-label="Offset"]').first).not_to_have_text("seqno: 7")
    expect(page.locator("#live")).to_have_attribute("data-state", "on")
    assert visitor.overflow() <= 0, visitor.what_overflows()


def test_a_notice_moves_nothing_and_there_is_one_at_most(visitors: Visitors, flow: Make) -> None:
    one = flow(throughput=50)
    visitor = visitors()
    page = visitor.go(f"/ui/connectors/{one.name}/tasks")
    visitor.await_live()
    before = place_of(page)
    for act, told in (("pause", "Pause requested"), ("resume", "Resume requested"), ("pause", "Pause requested")):
        page.locator(f"#do-{act}").click()
        notice(page, told)
        eventually(lambda: place_of(page) == before and page.locator("#notices > .alert").count() == 1, 10)
    state(page, "Paused")


@pytest.mark.slow
@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_an_act_on_many_is_told_beside_them_and_their_rows_change(visitors: Visitors, flow: Make, width: int) -> None:
    made = [flow("many", throughput=5) for _ in range(2)]
    visitor = visitors(width=width)
    page = visitor.go("/ui/connectors?q=many-")
    visitor.await_live()
    page.set_viewport_size({"width": width, "height": 420})  # the head of the list is far away
    rows = [page.locator(f'[data-row="{one.name}"]') for one in made]
    for row in rows:
        row.locator("input[name=connector]").check()
    rows[-1].scroll_into_view_if_needed()
    before = rows[-1].bounding_box()
    page.locator("#bulk").get_by_role("button", name="Pause").click()
    results = page.locator("#bulk-results > .alert")
    expect(results).to_contain_text("Done for 2 connectors")
    expect(results).to_be_in_viewport(ratio=1)
    for row in rows:
        expect(row).to_contain_text("Paused")
    after = rows[-1].bounding_box()
    assert before is not None
    assert after is not None
    assert abs(after["y"] - before["y"]) <= 2  # nothing has jumped
    assert visitor.overflow() <= 0, visitor.what_overflows()
