"""The page that a message leads to: the cause, what changed before it, whom to ask, and what repairs it."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.browser import axe
from tests.e2e.browser.conftest import Visitors
from tests.e2e.browser.visitor import NARROW
from tests.e2e.rest import Json
from tests.e2e.up import Up
from tests.support.names import unique
from tests.support.waiting import eventually


@pytest.fixture
def incident(platform: Up, tmp_path: Path) -> Iterator[Json]:
    """An open incident: a change of the configuration has a connector fail on a record."""
    name, rest = unique("tills"), platform.rest
    file = tmp_path / f"{name}.txt"
    file.write_text("1\n2\n")
    config = {
        "connector.class": "FileStreamSource",
        "topic": name,
        "file": str(file),
        "ringfence.owner": "the payments team",
        "ringfence.runbook": "https://wiki.example.org/tills",
    }
    rest.create(name, config)
    rule = {"name": name, "kind": "failed", "pattern": name, "seconds": 0, "enabled": True, "destinations": []}
    number = rest.expect(201, "POST", "/api/v1/alerts/rules", rule)["id"]
    eventually(lambda: rest.expect(200, "GET", f"/connectors/{name}/offsets")["offsets"], 60, pause=0.2)

    def running_generation() -> int:
        (task,) = rest.expect(200, "GET", f"/api/v1/connectors/{name}/tasks")["results"]
        return int(task["generation"]) if task["state"] == "RUNNING" else 0

    before = eventually(running_generation, 60, pause=0.2)
    cast = {"transforms": "c", "transforms.c.type": "Cast$Value", "transforms.c.spec": "int64"}
    rest.settled(200, "PUT", f"/connectors/{name}/config", config | cast)
    # The old task goes on for a moment, and would still take the line.
    eventually(lambda: running_generation() > before, 60, running_generation, pause=0.2)
    with file.open("a") as lines:
        lines.write("worse\n")

    def open_ones() -> list[Json]:
        found = rest.expect(200, "GET", f"/api/v1/alerts/incidents?open=true&connector={name}")["results"]
        return [one for one in found if one["rule"] == name]

    yield eventually(open_ones, 90, "an incident", pause=0.3)[0]
    rest.expect(204, "DELETE", f"/api/v1/alerts/rules/{number}")
    rest.settled(204, "DELETE", f"/connectors/{name}")


def read_the_room(page: Page, name: str) -> None:
    expect(page.locator("h1")).to_have_text(f"Task 0 of {name} has failed")
    failure = page.locator("#failure-1")
    for told in ("worse", '{"position":10}', "transforms.c.spec", "is not a number of type int64"):
        expect(failure).to_contain_text(told)
    expect(page.get_by_text("the payments team")).to_be_visible()
    expect(page.get_by_role("link", name="Open the runbook")).to_have_attribute(
        "href", "https://wiki.example.org/tills"
    )
    story = page.locator("#story")
    for told in ("Configuration version 2", "It began", "reported it", "failed"):
        expect(story).to_contain_text(told)
    expect(page.locator(".log-lines")).to_contain_text("is not a number")
    # Both on one axis; marks that are near to each other are drawn as one.
    expect(page.locator("#axis .mark.incident title")).to_contain_text("The incident began")
    expect(page.locator("#axis .mark title").filter(has_text="Configuration version 2")).to_have_count(1)
    repairs = page.locator("#repairs li")
    for key, effect in (
        ("dead-letter", "go there from now on"),
        ("setting", "read again with the new value"),
        ("rollback", "Configuration version 2 became current"),
        ("restart", "fail on it again"),
        ("pause", "read nothing until somebody resumes them"),
    ):
        row = repairs.filter(has=page.locator(f"#repair-{key}"))
        expect(row).to_contain_text(effect)


def test_all_that_somebody_on_call_needs_is_in_one_place(visitors: Visitors, platform: Up, incident: Json) -> None:
    name, address = incident["connector"], f"/ui/incidents/{incident['id']}"
    visitor = visitors()
    page = visitor.go(address)
    read_the_room(page, name)
    assert axe.both_themes(page) == []

    page.locator("#do-acknowledge").click()
    expect(page.locator("#acknowledged")).to_contain_text("Acknowledged by")
    page.get_by_label("Note").fill("The till sends words.\nI ask its makers.")
    page.get_by_role("button", name="Add a note").click()
    expect(page.locator("#story .note")).to_have_text("The till sends words.\nI ask its makers.")
    expect(page.locator("#story")).to_contain_text(re.compile("Note by .+"))

    page.locator("#repair-dead-letter").click()
    expect(page.locator("#ask")).to_contain_text("errors.tolerance")  # what changes, before anything does
    page.locator("#ask").get_by_role("button", name="Skip bad records").click()
    expect(page.locator("#notices")).to_contain_text("The configuration was changed")
    expect(page.locator("#cause .chip").first).to_have_text("Resolved", timeout=90_000)  # without a reload
    expect(page.locator("#repairs")).to_have_count(0)
    expect(page.locator("#reported-cause")).to_contain_text("is not a number of type int64")  # still known
    expect(page.locator("#story")).to_contain_text("It is over")
    expect(page.locator("#story")).to_contain_text("Configuration version 3")


def test_it_fits_a_phone(visitors: Visitors, incident: Json) -> None:
    visitor = visitors(width=NARROW, theme="dark")
    page = visitor.go(f"/ui/incidents/{incident['id']}")
    read_the_room(page, incident["connector"])
    assert visitor.overflow() <= 0, visitor.what_overflows()
    assert axe.sizes(page) == []


def test_a_new_destination_is_told_by_all_rules_in_two_clicks(visitors: Visitors, platform: Up) -> None:
    name, rest = unique("pager"), platform.rest
    page = visitors().go("/ui/incidents/destinations")
    page.get_by_role("link", name="New destination").first.click()
    page.get_by_label("Name").fill(name)
    page.get_by_label("Kind").select_option("pagerduty")
    page.get_by_label("Secret or key").fill("R" * 32)
    page.get_by_role("button", name="Save").click()
    row = page.locator("tr").filter(has_text=name).first
    expect(row).to_contain_text("https://events.pagerduty.com/")
    rules = rest.expect(200, "GET", "/api/v1/alerts/rules")["results"]
    try:
        assert rules
        assert all(name in rule["destinations"] for rule in rules)
        rule = rest.expect(201, "POST", "/api/v1/alerts/rules", {"name": name, "kind": "failed", "enabled": False})
        page.reload()
        expect(row).to_contain_text(f"{len(rules)} of {len(rules) + 1}")
        row.get_by_role("button", name="Notify from all rules").click()
        expect(row).to_contain_text(f"all {len(rules) + 1}")
        rest.expect(204, "DELETE", f"/api/v1/alerts/rules/{rule['id']}")
    finally:
        (own,) = [
            one for one in rest.expect(200, "GET", "/api/v1/alerts/destinations")["results"] if one["name"] == name
        ]
        rest.expect(204, "DELETE", f"/api/v1/alerts/destinations/{own['id']}")
