"""The time axis in a browser: a moment is read and opened, a brushed range is, too, and the address keeps it."""

import contextlib
import re
import sqlite3
import time
from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.browser import axe
from tests.e2e.browser.conftest import Visitors
from tests.e2e.browser.visitor import NARROW, Visitor
from tests.e2e.flow import Flow
from tests.e2e.up import Up

Make = Callable[..., Flow]
MINUTES = 100
_MINUTE_MS = 60_000


def write_past(up: Up, name: str, first: int) -> None:
    """So many minutes of which no two are alike; in the last ten nobody was there."""
    with contextlib.closing(sqlite3.connect(up.data / "ringfence.sqlite3", timeout=30)) as database, database:
        for number in range(MINUTES - 10):
            row = {
                "step": 1, "minute": first + number, "minutes": 1, "aborted": 0, "skipped": 0, "fences": 0,
                "restarts": 0, "failed": 0, "commits": 1, "commit_max_ms": 9.0, "commit_count": 1, "lag_name": "lag",
                "connector": name, "state": "PAUSED" if number == 40 else "RUNNING", "records": 1000 + number,
                "dead_letters": number % 7, "open_transactions": number % 5, "commit_sum_ms": 200.0 + number,
                "lag": 5000.0 - number, "age_ms": 4000 + number % 3 * 1000,
            }  # fmt: skip
            for each in (row, {**row, "connector": "", "state": ""}):
                places = ",".join("?" * len(each))
                statement = f"INSERT OR REPLACE INTO mirror_historypoint ({','.join(each)}) VALUES ({places})"
                database.execute(statement, list(each.values()))


def read(number: int) -> str:
    state = "paused" if number == 40 else "running"
    return (
        f"Records per minute {1000 + number:,}/min, Oldest data {4 + number % 3} s, "
        f"Time of a commit {200 + number} ms, Open transactions {number % 5}, Source lag (lag) {5000 - number:,}, "
        f"Dead letters and skipped records {number % 7}, State {state}"
    )


def query(page: Page) -> dict[str, int]:
    return {key: int(values[0]) for key, values in parse_qs(urlsplit(page.url).query).items()}


@pytest.mark.thorough
def test_a_moment_is_read_and_opened_and_a_brushed_range_cuts_the_page_and_is_in_the_address(
    visitor: Visitor, platform: Up, flow: Make
) -> None:
    one = flow(throughput=50)
    first = int(time.time()) // 60 - MINUTES - 600  # all before the platform was started: its minutes are no gaps
    write_past(platform, one.name, first)
    whole = {"from": first * _MINUTE_MS, "to": (first + MINUTES) * _MINUTE_MS}
    page = visitor.go(f"/ui/connectors/{one.name}/history?from={whole['from']}&to={whole['to']}")
    picture, readout = page.get_by_role("slider", name="Moment"), page.locator("#axis-readout")
    expect(picture).to_have_attribute("aria-valuemax", str(MINUTES - 1))

    def place(number: float) -> tuple[float, float]:
        box = picture.bounding_box()
        assert box is not None
        return box["x"] + (number + 0.5) / MINUTES * box["width"], box["y"] + 60

    for number in (3, 40, 77):
        page.mouse.move(*place(number))
        expect(readout).to_contain_text(read(number))
        expect(picture).to_have_attribute("aria-valuenow", str(number))
    page.mouse.move(*place(95))
    expect(readout).to_contain_text("no data")
    page.mouse.move(*place(77))
    picture.focus()
    page.keyboard.press("ArrowLeft")
    expect(readout).to_contain_text(read(76))

    page.mouse.click(*place(40))
    expect(page.get_by_role("heading", name=re.compile("^Around "))).to_be_visible()

    page.mouse.move(*place(20))
    page.mouse.down()
    page.mouse.move(*place(39), steps=4)
    expect(readout).to_contain_text("to open this range")
    page.mouse.up()
    expect(picture).to_have_attribute("aria-valuemax", "19")
    zoomed = query(page)
    assert (zoomed["from"], zoomed["to"]) == ((first + 20) * _MINUTE_MS, (first + 40) * _MINUTE_MS)
    expect(page.locator("#section-timeline")).to_contain_text("Nothing happened in this range")
    expect(page.locator("#section-logs")).to_contain_text("No lines match")
    expect(page.locator(".axis-told")).to_contain_text("more than in the period before")
    page.reload()
    expect(picture).to_have_attribute("aria-valuemax", "19")
    picture.focus()
    for key in ("Home", "Shift+ArrowRight", "Shift+ArrowRight", "Enter"):
        page.keyboard.press(key)
    expect(picture).to_have_attribute("aria-valuemax", "2")
    assert query(page) == {"from": (first + 20) * _MINUTE_MS, "to": (first + 23) * _MINUTE_MS}
    page.go_back()
    expect(picture).to_have_attribute("aria-valuemax", "19")
    assert axe.both_themes(page) == []


def test_rows_that_are_read_stay_where_they_are_until_new_ones_are_wanted(
    visitors: Visitors, platform: Up, flow: Make
) -> None:
    one = flow()
    one.await_progress(1)
    page = visitors().go(f"/ui/connectors/{one.name}/history")
    rows = page.locator("#section-timeline .timeline.long > li")
    expect(rows.first).to_be_visible()
    first = rows.all_inner_texts()
    platform.rest.settled(202, "PUT", f"/connectors/{one.name}/pause")
    new = page.locator("#timeline-new")
    expect(new).to_contain_text("new: show")
    assert len(rows.all_inner_texts()) == len(first)
    expect(page.locator("#section-timeline")).not_to_contain_text("paused")
    new.click()
    expect(new).to_have_count(0)
    expect(page.locator("#section-timeline")).to_contain_text("paused")
    expect(page.get_by_role("heading", level=1)).to_have_text(one.name)  # the rest of the page is there


def test_the_axis_of_the_cluster_opens_a_range_on_a_phone(visitors: Visitors, platform: Up, flow: Make) -> None:
    one = flow(throughput=50)
    visitor = visitors(width=NARROW)
    page = visitor.go("/ui")
    picture = page.get_by_role("slider", name="Moment")
    expect(page.locator("#axis-changes summary")).to_contain_text("what else happened")
    page.locator("#axis-changes summary").click()
    expect(page.locator("#axis-changes")).to_contain_text(f"{one.name}: Configuration version 1")
    assert visitor.overflow() <= 0, visitor.what_overflows()
    picture.focus()
    for key in ("End", "Shift+ArrowLeft", "Shift+ArrowLeft", "Enter"):
        page.keyboard.press(key)
    expect(page.get_by_role("heading", name="What happened then")).to_be_visible()
    assert query(page)["to"] - query(page)["from"] <= 3 * _MINUTE_MS
    expect(page.locator("#newest-events")).to_contain_text(one.name)
    assert visitor.overflow() <= 0, visitor.what_overflows()
