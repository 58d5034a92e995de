"""A connector is made as a pipeline: by keys alone, with a record to see, in fields and JSON, and nothing is lost."""

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Dialog, Page, expect

from tests.e2e.browser.conftest import Visitors
from tests.e2e.browser.visitor import NARROW, Visitor
from tests.e2e.flow import Flow
from tests.e2e.up import Up
from tests.support.names import unique

CREATE = "Create connector"


def add(page: Page, words: str) -> None:
    """A transform, by what it does, with keys only."""
    page.locator("#add-transform summary").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#menu-search")).to_be_focused()
    page.keyboard.type(words)
    page.keyboard.press("Enter")


def give_sample(page: Page) -> None:
    """A record of the user's own, as a form has none before it has read the source."""
    value = {"id": 7, "name": "Ann", "email": "ann@example.com"}
    page.locator("#trial summary").click()
    page.locator("#sample").fill(json.dumps({"topic": "t", "key": None, "value": value}))


def titles(page: Page) -> list[str]:
    return [" ".join(each.inner_text().split()) for each in page.locator(".step-title h3").all()]


@pytest.mark.thorough
def test_a_pipeline_is_made_by_keys_alone_and_shows_a_record_at_each_step(visitor: Visitor, platform: Up) -> None:
    flow = Flow(platform, unique("piped"), throughput=50)
    try:
        page = visitor.go("/ui/new?class=VerifiableSource")
        expect(page.locator("#written")).to_contain_text("Preview reads the source's first records")
        give_sample(page)
        page.get_by_role("textbox", name="Name required").focus()
        page.keyboard.press("Control+A")  # a name is proposed
        page.keyboard.type(flow.name)
        add(page, "mask value")
        expect(page.get_by_label("Fields required")).to_be_focused()
        page.keyboard.type("email")
        mask = page.locator(".step").first.locator(".sample")
        expect(mask).to_contain_text("ann@example.com")
        expect(mask.locator(".plus")).to_contain_text('"email": ""')
        add(page, "rename topic")
        expect(page.get_by_label("Regex required")).to_be_focused()
        page.keyboard.type("(.*)")
        page.keyboard.press("Tab")
        page.keyboard.type("$1-masked")
        expect(page.locator(".step").last.locator(".plus")).to_contain_text("-masked")
        assert titles(page) == ["Mask fields in the value", "Rename the topic"]
        page.keyboard.press("Alt+ArrowUp")
        expect(page.locator(".step-title h3").first).to_contain_text("Rename the topic")
        expect(page.get_by_role("button", name="Move Rename the topic down")).to_be_focused()
        page.get_by_role("button", name="Remove Mask fields").press("Enter")
        expect(page.locator(".step")).to_have_count(1)
        topic = page.get_by_label("Topic required")
        topic.fill(flow.name)
        rate = page.get_by_label("Throughput")
        rate.fill("50")
        page.get_by_role("button", name=CREATE).press("Enter")
        expect(page.get_by_role("heading", level=1)).to_have_text(flow.name)
        config = platform.rest.expect(200, "GET", f"/connectors/{flow.name}/config")
        assert config["transforms"] == "regexRouter"
        assert config["transforms.regexRouter.replacement"] == "$1-masked"
        assert not any("maskField" in key for key in config)
    finally:
        flow.close()


def test_a_sample_that_comes_after_its_step_was_removed_is_dropped(visitor: Visitor) -> None:
    page = visitor.go("/ui/new?class=VerifiableSource")
    give_sample(page)
    expect(page.locator("#written")).to_contain_text("In Kafka")
    late = visitor.hold("**/ui/new/beside", lambda: add(page, "mask value"), "maskField")
    answer = late.fetch()
    assert "sample-transforms-maskfield" in answer.text()
    page.get_by_role("button", name="Remove Mask fields").press("Enter")
    expect(page.locator(".step")).to_have_count(0)
    late.fulfill(response=answer)
    page.get_by_label("Topic required").fill("orders")
    page.locator("#json-panel summary").click()
    expect(page.locator("#json")).to_have_value(re.compile('"topic": "orders"'))
    expect(page.locator("#written")).to_contain_text("In Kafka")


def test_fields_and_json_follow_each_other_and_broken_json_stays(visitors: Visitors) -> None:
    visitor = visitors(width=NARROW)
    page = visitor.go("/ui/new?class=VerifiableSource")
    page.locator("#json-panel summary").click()
    area = page.locator("#json")
    page.get_by_label("Topic required").fill("orders")
    expect(area).to_have_value(re.compile('"topic": "orders"'))
    area.fill(area.input_value().replace('"orders"', '"orders-eu"'))
    expect(page.get_by_label("Topic required")).to_have_value("orders-eu")
    broken = area.input_value().replace('"orders-eu"', '"orders-us')
    area.fill(broken)
    expect(page.locator("#json-error")).to_contain_text(re.compile(r"line \d+ column \d+"))
    expect(page.get_by_label("Topic required")).to_have_value("orders-eu")
    page.get_by_label("Throughput").fill("7")
    expect(page.locator("#take-form")).to_be_visible()
    expect(area).to_have_value(broken)
    page.locator("#take-form").click()
    expect(area).to_have_value(re.compile('"throughput": "7"'))
    assert visitor.overflow() == 0, visitor.what_overflows()


def test_a_test_takes_its_press_beside_a_field_that_has_focus(visitors: Visitors, tmp_path: Path) -> None:
    """On a narrow page, the field shows a line more while it is the current one."""
    file = tmp_path / "lines.txt"
    page = visitors(width=NARROW).go("/ui/new?class=FileStreamSource")
    path = page.locator("[name='setting:file']")
    for exists, words in ((False, "Not connected"), (True, "7 bytes so far.")):
        if exists:
            file.write_text("a line\n")
        path.fill(str(file))
        path.press("Tab")
        expect(page.locator("#new .htmx-request")).to_have_count(0)
        if exists:
            expect(page.locator("#card-source .more a")).to_be_focused()
        page.locator("#test").click()
        expect(page.locator("#tested")).to_contain_text(words)
    expect(page.locator("#in-name")).to_have_value("lines")


def test_all_other_settings_are_found_by_what_they_mean(visitor: Visitor) -> None:
    page = visitor.go("/ui/new?class=VerifiableSource")
    page.locator("#all-settings > summary").click()
    retry = page.locator('[name="setting:errors.retry.timeout"]')
    expect(retry).to_be_visible()
    page.locator("#settings-search").fill("how long called again")
    expect(retry).to_be_visible()
    expect(page.locator('[name="setting:errors.tolerance"]')).to_be_hidden()
    page.locator("#settings-search").fill("no setting has this")
    expect(page.locator("#settings-nothing")).to_be_visible()
    expect(retry).to_be_hidden()


def test_the_topic_is_named_after_the_connector_until_somebody_changes_it(visitor: Visitor) -> None:
    page = visitor.go("/ui/new?class=VerifiableSource")
    name, topic = page.locator("#in-name"), page.locator("[name='setting:topic']")
    expect(topic).to_have_value(name.input_value())
    name.fill("numbers")
    expect(topic).to_have_value("numbers")
    topic.fill("own")
    name.fill("figures")
    expect(topic).to_have_value("own")


@pytest.mark.slow
def test_a_draft_outlives_the_page_without_its_secrets_and_leaving_asks_first(visitor: Visitor) -> None:
    page = visitor.go("/ui/new?class=PostgresSource")
    page.get_by_role("textbox", name="Name required").fill("draft")
    page.locator("[name='setting:database.hostname']").fill("db.example.com")
    page.locator("[name='setting:database.password']").fill("hunter2-secret")
    add(page, "drop records")
    expect(page.locator("#draft-state")).to_contain_text("Draft kept")
    expect(page.locator("#draft-now")).to_contain_text("filter")
    kept = page.evaluate("Object.values(localStorage)[0]")
    assert "hunter2" not in page.evaluate("JSON.stringify([localStorage, sessionStorage])")
    assert json.loads(kept)["left_out"] == ["database.password"]
    asked: list[str] = []

    def agree(dialog: Dialog) -> None:
        asked.append(dialog.type)
        dialog.accept()

    page.on("dialog", agree)
    page.goto("/ui/new")
    assert asked == ["beforeunload"]
    page.goto("/ui/new?class=PostgresSource")
    expect(page.locator("#draft")).to_contain_text("database.password")
    page.get_by_role("button", name="Continue with it").click()
    expect(page.locator("[name='setting:database.hostname']")).to_have_value("db.example.com")
    expect(page.get_by_role("textbox", name="Name required")).to_have_value("draft")
    assert titles(page) == ["Drop records"]
    expect(page.locator("[name='setting:database.password']")).to_have_value("")


@pytest.mark.thorough
def test_advanced_settings_come_when_they_are_opened_and_are_checked_like_the_others(visitor: Visitor) -> None:
    page = visitor.go("/ui/new?class=VerifiableSource")
    topic, retry = page.locator('[name="setting:topic"]'), page.locator('[name="setting:errors.retry.timeout"]')
    page.get_by_role("textbox", name="Name required").fill(unique("drawer"))
    topic.fill("t")
    topic.press("Tab")
    expect(retry).to_have_count(0)
    page.locator("#all-settings > summary").click()
    expect(retry).to_be_visible()
    expect(topic).to_have_value("t")
    retry.fill("soon")
    retry.press("Tab")
    expect(page.locator("#err-errors-retry-timeout")).to_contain_text("Not a number")
    expect(topic).to_have_value("t")
