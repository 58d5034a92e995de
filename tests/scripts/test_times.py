"""`ringfence.js` writes relative times as the server does (`ago`), and keeps them up to date."""

import pytest

from tests.scripts.conftest import Open
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
