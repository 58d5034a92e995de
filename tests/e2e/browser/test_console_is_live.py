"""The console's pages show changes as they happen, without a reload."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.e2e.browser.conftest import Visitors
from tests.e2e.conftest import flows
from tests.e2e.up import Up
from tests.support.names import unique
from tests.support.waiting import eventually

TOKEN = "the-token-of-the-administrator"


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[Up]:
    """One of its own: from the first account on, nobody needs no login."""
    up = Up(tmp_path / "platform", settings={"RINGFENCE_TOKEN": TOKEN})
    up.rest._client.headers["Authorization"] = f"Bearer {TOKEN}"
    with up:
        eventually(lambda: up.rest.call("GET", "/health").status_code == 200, 60, "a leader", pause=0.3)
        yield up


@pytest.mark.thorough
def test_a_new_account_and_a_paused_connector_show_on_open_pages(visitors: Visitors, platform: Up) -> None:
    making = flows(platform)
    one, name = next(making)(throughput=50), unique("ann")
    accounts, trail, connectors, maker = (visitors() for _ in range(4))
    for each in (accounts, trail, connectors, maker):
        each.context.set_extra_http_headers({"Authorization": f"Bearer {TOKEN}"})
    accounts.go("/ui/settings/people")
    trail.go("/ui/settings/audit")
    connectors.go(f"/ui/connectors?q={one.name}")
    for each in (accounts, trail, connectors):
        each.mark()
        each.await_live()
    row = connectors.page.get_by_role("row", name=one.name)
    expect(row).to_contain_text("Healthy")
    row.get_by_role("link", name=one.name).focus()
    page = maker.go("/ui/settings/people/new")
    page.get_by_role("textbox", name="Name").fill(name)
    page.get_by_role("checkbox", name="viewer").check()
    page.get_by_label("Reason").fill("a browser test")
    page.get_by_role("button", name="Create").click()
    expect(accounts.page.get_by_role("row", name=name)).to_contain_text("active")
    expect(trail.page.get_by_role("row", name="/ui/settings/people/new")).to_have_count(0)
    trail.page.get_by_role("link", name=re.compile("^[0-9]+ new entr")).click()
    expect(trail.page.get_by_role("row", name="/ui/settings/people/new").first).to_contain_text("done")
    platform.rest.settled(202, "PUT", f"/connectors/{one.name}/pause")
    expect(row).to_contain_text("Paused")
    expect(row.get_by_role("link", name=one.name)).to_be_focused()
    for each in (accounts, trail, connectors):
        assert each.stayed
    next(making, None)  # deletes the connector
