"""The History tab in a browser: hover reads all lanes, a click opens, dragging zooms, the address keeps it."""

import contextlib
import re
import sqlite3
import time
from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.browser.visitor import Visitor
from tests.e2e.flow import Flow
from tests.e2e.up import Up

Make = Callable[..., Flow]
MINUTES = 100
_MINUTE_MS = 60_000
SERIES = "**/history/series*"


def write_past(up: Up, name: str, first: int) -> None:
    """So many minutes of which no two are alike; in the last ten nobody was there."""
    with contextlib.closing(sqlite3.connect(up.data / "ringfence.sqlite3", timeout=30)) as database, database:
        for number in range(MINUTES - 10):
            row = {
                "step": 1, "minute": first + number, "minutes": 1, "aborted": 0, "skipped": 0, "fences": 0,
                "restarts": 0, "failed": 0, "commits": 1, "commit_max_ms": 9.0, "commit_count": 1, "lag_name": "lag",
                "connector": name, "state": "PAUSED" if number == 40 else "RUNNING", "records": 1000 + number,
                "dead_letters": number % 7, "open_transactions": number % 5, "commit_sum_ms": 200.0 + number,
                "lag": 5000.0 - number,
            }  # fmt: skip
            for each in (row, {**row, "connector": "", "state": ""}):
                places = ",".join("?" * len(each))
                statement = f"INSERT OR REPLACE INTO mirror_historypoint ({','.join(each)}) VALUES ({places})"
                database.execute(statement, list(each.values()))


def read(number: int) -> str:
    state = "PAUSED" if number == 40 else "RUNNING"
    return (
        f"Records {1000 + number:,}, Commit, ms {200 + number}, Open {number % 5}, Source lag {5000 - number:,}, "
        f"Dead letters {number % 7}, State {state}"
    )


def query(page: Page) -> dict[str, int]:
    return {key: int(values[0]) for key, values in parse_qs(urlsplit(page.url).query).items()}


@pytest.mark.thorough
def test_a_moment_is_read_opened_and_zoomed_to_and_the_address_carries_it(
    visitor: Visitor, platform: Up, flow: Make
) -> None:
    one = flow(throughput=50)
    first = int(time.time()) // 60 - MINUTES - 60  # all before the platform was started: its minutes are no gaps
    write_past(platform, one.name, first)
    whole = {"from": first * _MINUTE_MS, "to": (first + MINUTES) * _MINUTE_MS}
    page = visitor.go(f"/ui/connectors/{one.name}/history?from={whole['from']}&to={whole['to']}")
    picture, readout = page.get_by_role("slider", name="Moment"), page.locator("#history-readout")
    expect(picture).to_have_attribute("aria-valuemax", str(MINUTES - 1))
    expect(readout).to_contain_text("no data")
    box, left = picture.bounding_box(), 110
    assert box is not None

    def place(number: float) -> tuple[float, float]:
        width = float(str(picture.get_attribute("viewBox")).split()[2])
        inside = left + (number + 0.5) / MINUTES * (width - left)
        return box["x"] + inside * box["width"] / width, box["y"] + 60

    for number in (3, 40, 77):
        page.mouse.move(*place(number))
        expect(readout).to_contain_text(read(number))
        expect(picture).to_have_attribute("aria-valuenow", str(number))
    picture.focus()
    page.keyboard.press("ArrowLeft")
    expect(readout).to_contain_text(read(76))

    page.mouse.click(*place(40))
    expect(page.get_by_role("heading", name=re.compile("^Around "))).to_be_visible()
    opened = query(page)["at"]
    assert (first + 40) * _MINUTE_MS <= opened < (first + 41) * _MINUTE_MS
    page.reload()
    expect(page.get_by_role("heading", name=re.compile("^Around "))).to_be_visible()
    assert query(page)["at"] == opened

    page.mouse.move(*place(20))
    page.mouse.down()
    page.mouse.move(*place(39), steps=4)
    page.mouse.up()
    expect(picture).to_have_attribute("aria-valuemax", "19")
    zoomed = query(page)
    assert (zoomed["from"], zoomed["to"]) == ((first + 20) * _MINUTE_MS, (first + 40) * _MINUTE_MS)
    page.reload()
    expect(picture).to_have_attribute("aria-valuemax", "19")
    picture.focus()
    page.keyboard.press("Home")
    expect(readout).to_contain_text(read(20))
    page.go_back()
    expect(picture).to_have_attribute("aria-valuemax", str(MINUTES - 1))

    late = visitor.hold(SERIES, page.go_forward)
    zoomed_series = late.fetch()
    with page.expect_response(SERIES):
        page.go_back()
    late.fulfill(response=zoomed_series)
    page.evaluate("fetch('/ui/vital-signs').then((answer) => answer.text())")  # by then the page has the late answer
    expect(picture).to_have_attribute("aria-valuemax", str(MINUTES - 1))


@pytest.mark.thorough
def test_a_server_that_does_not_answer_is_named(visitor: Visitor, flow: Make) -> None:
    visitor.tolerate_refusal(502)
    visitor.page.route(SERIES, lambda route: route.fulfill(status=502, body="<h1>Bad gateway</h1>"))
    page = visitor.go(f"/ui/connectors/{flow().name}/history")
    expect(page.locator("#history-readout")).to_contain_text("The server does not answer")
