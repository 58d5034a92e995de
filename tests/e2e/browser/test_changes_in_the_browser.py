"""What people do with a connector, as they do it."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.e2e.browser.conftest import Visitors
from tests.e2e.browser.facts import await_later_generation, await_more_records, generation, state
from tests.e2e.browser.visitor import Visitor
from tests.e2e.flow import Flow
from tests.e2e.up import Up
from tests.support.names import unique

Make = Callable[..., Flow]


def test_create_with_a_mistake_then_without(visitor: Visitor, platform: Up) -> None:
    flow = Flow(platform, unique("created"), throughput=50)
    try:
        visitor.tolerate_refusal(400)
        page = visitor.go("/ui/new")
        page.get_by_role("link", name="VerifiableSource").click()
        page.get_by_role("textbox", name="Name required").fill(flow.name)
        page.get_by_role("textbox", name="Topic required").fill(flow.name)
        rate = page.get_by_label("throughput").first
        rate.fill("fast")
        page.get_by_role("button", name="Create connector").click()
        expect(page.get_by_role("alert")).to_be_focused()
        expect(rate).to_have_attribute("aria-invalid", "true")
        expect(rate).to_have_value("fast")
        assert platform.rest.call("GET", f"/connectors/{flow.name}").status_code == 404
        page.get_by_role("alert").get_by_role("link").first.click()
        expect(rate).to_be_focused()
        rate.fill("50")
        expect(rate).not_to_have_attribute("aria-invalid", "true")
        page.get_by_role("button", name="Create connector").click()
        expect(page.get_by_role("heading", level=1)).to_have_text(flow.name)
        visitor.mark()
        state(page, "Healthy")
        await_more_records(page)
        assert visitor.stayed
    finally:
        flow.close()


def test_pause_and_resume_with_numbers_that_move_without_a_reload(visitor: Visitor, platform: Up, flow: Make) -> None:
    one = flow(throughput=50)
    page = visitor.go(f"/ui/connectors/{one.name}")
    visitor.mark()
    visitor.await_live()
    await_more_records(page)
    page.get_by_role("button", name="Pause").click()
    expect(page.locator("#notices")).to_contain_text("Pause requested")
    state(page, "Paused")
    one.await_states("PAUSED")
    page.get_by_role("button", name="Resume").click()
    state(page, "Healthy")
    await_more_records(page)
    assert visitor.stayed


@pytest.mark.thorough
def test_an_edit_with_a_mistake_then_without_makes_a_generation_and_is_rolled_back(
    visitor: Visitor, platform: Up, flow: Make
) -> None:
    one = flow(throughput=50)
    config = f"/connectors/{one.name}/config"
    visitor.tolerate_refusal(400)
    page = visitor.go(f"/ui/connectors/{one.name}/edit?mode=form")
    rate = page.get_by_label("throughput").first
    rate.fill("fast")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert").filter(has_text="to correct")).to_contain_text("fast")
    expect(rate).to_have_value("fast")
    assert platform.rest.expect(200, "GET", config)["throughput"] == "50"
    rate.fill("60")
    page.get_by_role("button", name="Save").click()
    expect(page).to_have_url(re.compile("/config$"))
    assert platform.rest.expect(200, "GET", config)["throughput"] == "60"
    made = generation(page)
    visitor.mark()
    page.get_by_role("row", name=re.compile(r"^1 ")).get_by_role("link", name="Roll back").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("row", name=re.compile("throughput"))).to_contain_text("60")
    dialog.get_by_role("button", name="Roll back").click()
    expect(page.locator("#notices")).to_contain_text("Version 1 is the current configuration again")
    expect(dialog).to_have_count(0)
    await_later_generation(page, made)
    assert visitor.stayed
    assert platform.rest.expect(200, "GET", config)["throughput"] == "50"
    one.await_progress()


@pytest.mark.thorough
def test_of_two_editors_the_second_sees_both_changes_and_none_is_lost(
    visitors: Visitors, platform: Up, flow: Make
) -> None:
    one = flow(throughput=50)
    ann, bob = visitors(), visitors()
    for each in (ann, bob):
        each.go(f"/ui/connectors/{one.name}/edit")
        each.await_live()
    edited = ann.page.get_by_label("Configuration").input_value()
    mine = edited.replace('"50"', '"52"')
    bob.page.get_by_label("Configuration").fill(mine)
    ann.page.get_by_label("Configuration").fill(edited.replace('"50"', '"51"'))
    ann.page.get_by_role("button", name="Save").click()
    expect(ann.page).to_have_url(re.compile("/config$"))
    expect(bob.page.locator("#newer")).to_contain_text("was changed")
    expect(bob.page.get_by_label("Configuration")).to_have_value(mine)  # nothing is swapped under an open form
    bob.tolerate_refusal(409)
    bob.page.get_by_role("button", name="Save").click()
    expect(bob.page.get_by_role("alert")).to_contain_text("nothing was saved")
    ways = bob.page.get_by_role("row", name=re.compile("throughput"))
    expect(ways.first).to_contain_text("51")
    expect(ways.first).to_contain_text("52")
    assert platform.rest.expect(200, "GET", f"/connectors/{one.name}/config")["throughput"] == "51"
    bob.page.get_by_role("button", name="Save").click()
    expect(bob.page).to_have_url(re.compile("/config$"))
    assert platform.rest.expect(200, "GET", f"/connectors/{one.name}/config")["throughput"] == "52"
