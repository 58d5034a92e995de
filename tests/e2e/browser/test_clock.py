"""One clock: every time on a page is the reader's, and the zone is said once."""

import re

import pytest

from tests.e2e.browser.conftest import Visitors
from tests.e2e.browser.scene import Scene

ZONE = "Pacific/Kiritimati"
"""No server of ours is there: fourteen hours ahead of UTC."""
PAGES = ("/ui/", "/ui/connectors/{failed}", "/ui/connectors/{running}/timeline", "/ui/incidents", "/ui/settings/audit")


@pytest.mark.thorough
@pytest.mark.parametrize("address", PAGES)
def test_every_time_is_the_readers_and_the_zone_is_said_once(visitors: Visitors, scene: Scene, address: str) -> None:
    page = visitors(zone=ZONE).go(address.format(**scene.names))
    words = page.locator("body").inner_text()
    assert not re.search(r"\d UTC\b", words), "a time of the server"
    assert words.count(ZONE) == 1
    shown = page.evaluate(
        "[...document.querySelectorAll('time[data-local=\"clock\"]')].map(one => [one.dateTime, one.textContent])"
    )
    for moment, clock in shown:
        hours = (int(moment[11:13]) + 14) % 24
        assert clock.startswith(f"{hours:02}:"), (moment, clock)
