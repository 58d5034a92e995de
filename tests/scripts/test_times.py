"""`ringfence.js` writes relative times as the server does (`ago`), and keeps them up to date."""

import pytest
from playwright.sync_api import Browser

from tests.scripts.conftest import HTMX, STATIC, Open
from tests.support import database  # noqa: F401 - sets Django up

NOW_MS = 1_800_000_000_000


@pytest.mark.parametrize("seconds", [0, 1, 59, 60, 119, 3599, 3600, 86399, 86400, 200_000])
def test_a_time_is_written_as_the_server_writes_it(opened: Open, monkeypatch: pytest.MonkeyPatch, seconds: int) -> None:
    from ringfence.web.templatetags.ringfence import ago

    monkeypatch.setattr("time.time", lambda: NOW_MS / 1000)
    written = str(ago(NOW_MS - 1000 * seconds))
    page = opened(written, "ringfence.js", now_ms=NOW_MS)
    server = page.locator("time").inner_text()
    page.evaluate('document.querySelector("time").textContent = ""')
    page.clock.run_for(1000)
    later = {0: "1 s ago", 1: "2 s ago", 59: "1 min ago", 119: "2 min ago", 3599: "1 h ago", 86399: "1 d ago"}
    assert page.locator("time").inner_text() == later.get(seconds, server)


@pytest.mark.parametrize("minutes", [-10, 0, 10])
def test_an_age_is_counted_by_the_servers_clock(opened: Open, minutes: int) -> None:
    """The browser's is minutes ahead of it, or behind."""
    event = f'<time data-ms="{NOW_MS - 65_000}" data-suffix=" ago"></time>'
    page = opened(event, "ringfence.js", now_ms=NOW_MS + minutes * 60_000, server_ms=NOW_MS)
    page.clock.run_for(1000)
    assert page.locator("time").inner_text() == "1 min ago"


@pytest.mark.parametrize(
    ("style", "utc", "local"),
    [
        ("clock", "08:00:00", "13:30:00"),
        ("minute", "08:00", "13:30"),
        ("date", "2027-01-15 08:00:00", "2027-01-15 13:30:00"),
    ],
)
def test_a_point_in_time_is_shown_in_the_readers_zone_and_a_table_says_which_zone_it_is(
    chromium: Browser, style: str, utc: str, local: str
) -> None:
    from ringfence.web.templatetags.ringfence import moment

    written = str(moment(NOW_MS, style))
    assert f">{utc}<" in written
    context = chromium.new_context(timezone_id="Asia/Kolkata")
    try:
        page = context.new_page()
        page.set_content(f'<!DOCTYPE html><body><i data-zone="">UTC</i>{written}</body>')
        for path in (HTMX, STATIC / "ringfence.js"):
            page.add_script_tag(path=path)
        assert page.locator("time").inner_text() == local
        assert page.locator("i").inner_text() == "Asia/Calcutta"
    finally:
        context.close()
