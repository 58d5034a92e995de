"""A record that no transform can take: its page names it, and each repair gets the connector going again."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.browser.conftest import Visitors
from tests.e2e.browser.facts import state
from tests.e2e.browser.visitor import NARROW
from tests.e2e.up import Up
from tests.support.names import unique
from tests.support.waiting import eventually

Fails = Callable[[], str]


@pytest.fixture
def fails(platform: Up, tmp_path: Path) -> Iterator[Fails]:
    """A connector whose third line is not a number."""
    made: list[str] = []

    def make() -> str:
        made.append(unique("numbers"))
        file = tmp_path / f"{made[-1]}.txt"
        file.write_text("1\n2\nabc\n4\n")
        config = {"connector.class": "FileStreamSource", "topic": made[-1], "file": str(file)}
        cast = {"transforms": "c", "transforms.c.type": "Cast$Value", "transforms.c.spec": "int64"}
        platform.rest.create(made[-1], config | cast)
        return made[-1]

    yield make
    for name in made:
        platform.rest.settled(204, "DELETE", f"/connectors/{name}")


def read_failure(page: Page) -> None:
    """The banner names the record."""
    failure = page.locator("#failure-1")
    for told in ("abc", '{"position":8}', "TRANSFORMATION", "transforms.c.spec", "A restart reads this record again"):
        expect(failure).to_contain_text(told)
    assert failure.evaluate("one => one.scrollWidth - one.clientWidth") == 0, "the banner cuts off what is wider"
    expect(page.locator("#do-restart-failed")).not_to_have_class(re.compile("primary"))  # it reads the record again


def own(platform: Up, name: str) -> dict[str, object]:
    found: dict[str, object] = platform.rest.expect(200, "GET", f"/api/v1/connectors/{name}")
    return found


def test_the_record_is_skipped_to_a_dead_letter(visitors: Visitors, platform: Up, fails: Fails) -> None:
    name = fails()
    visitor = visitors(width=NARROW)
    page = visitor.go(f"/ui/connectors/{name}")
    read_failure(page)
    assert visitor.overflow() <= 0, visitor.what_overflows()
    page.locator("#repair-skip-1").click()
    expect(page.locator("#ask")).to_contain_text("errors.tolerance")
    assert visitor.overflow() <= 0, visitor.what_overflows()
    page.locator("#ask").get_by_role("button", name="Skip bad records").click()
    expect(page.locator("#notices")).to_contain_text("The configuration was changed")
    expect(page.locator("#failure-1")).to_have_count(0)
    eventually(lambda: (own(platform, name)["records_total"], own(platform, name)["dead_letters_total"]) == (3, 1), 60)
    expect(page.locator("#bad-records")).to_contain_text("1 dead letter")


@pytest.mark.slow
def test_its_setting_is_changed_in_place_and_taken_back(visitors: Visitors, platform: Up, fails: Fails) -> None:
    name = fails()
    visitor = visitors()
    visitor.tolerate_refusal(400)
    page = visitor.go(f"/ui/connectors/{name}")
    read_failure(page)
    page.locator("#repair-setting-1").click()
    page.locator("#ask").get_by_label("transforms.c.spec").fill("no type")
    page.locator("#ask").get_by_role("button", name="Save").click()
    expect(page.locator("#ask")).to_contain_text("no type")  # validated, and still there to correct
    page.locator("#ask").get_by_label("transforms.c.spec").fill("string")
    page.locator("#ask").get_by_role("button", name="Save").click()
    expect(page.locator("#notices")).to_contain_text("The configuration was changed")
    state(page, "Healthy")
    eventually(lambda: own(platform, name)["records_total"] == 4, 60)
    assert platform.rest.expect(200, "GET", f"/connectors/{name}/config")["transforms.c.spec"] == "string"


@pytest.mark.slow
def running_generation(up: Up, name: str) -> int:
    """The generation of the task that runs; -1 while none does."""
    (task,) = up.rest.expect(200, "GET", f"/api/v1/connectors/{name}/tasks")["results"]
    return int(task["generation"]) if task["state"] == "RUNNING" else -1


def test_the_version_before_comes_back(visitors: Visitors, platform: Up, fails: Fails) -> None:
    name = fails()
    path = f"/connectors/{name}/config"
    config = platform.rest.expect(200, "GET", path)
    platform.rest.settled(200, "PUT", path, {**config, "transforms.c.spec": "string"})
    eventually(lambda: own(platform, name)["records_total"] == 4, 60)
    file = Path(config["file"])
    before = running_generation(platform, name)
    platform.rest.settled(200, "PUT", path, {**config, "transforms.c.spec": "int32"})
    # The task of the version before goes on until this one takes over, and could read the line.
    eventually(lambda: running_generation(platform, name) > before, 60)
    with file.open("a") as lines:
        lines.write("worse\n")
    page = visitors().go(f"/ui/connectors/{name}")
    expect(page.locator("#failure-1")).to_contain_text("worse")
    page.locator("#repair-back-1").click()
    expect(page.locator("#ask")).to_contain_text("Roll back to version 2")
    page.locator("#ask").get_by_role("button", name="Roll back").click()
    expect(page.locator("#notices")).to_contain_text("Version 2 is the current configuration again")
    eventually(lambda: own(platform, name)["records_total"] == 5, 60)
    state(page, "Healthy")
