"""A copy of the database makes nobody an administrator."""

import contextlib
import sqlite3

import httpx
import pytest

from tests.security.end_to_end.site import BOSS, Site

pytestmark = pytest.mark.timeout(300)


def test_a_sessions_row_is_worth_nothing_as_a_cookie(site: Site) -> None:
    with httpx.Client(base_url=site.boss.url, timeout=60) as browser:
        assert browser.get("/ui/login").status_code == 200
        form = {"name": "", "secret": BOSS, "csrfmiddlewaretoken": browser.cookies["ringfence_csrf"]}
        assert browser.post("/ui/login", data=form).status_code == 302
        cookie = browser.cookies["ringfence_session"]
        assert browser.get("/connectors").status_code == 200
    with contextlib.closing(sqlite3.connect(site.up.data / "ringfence.sqlite3")) as database:
        keys = [key for (key,) in database.execute("SELECT session_key FROM django_session")]
    assert keys
    assert cookie not in keys

    def answered(session: str) -> int:
        cookies = {"ringfence_session": session}
        return httpx.get(f"{site.boss.url}/connectors", cookies=cookies, timeout=60).status_code

    assert {answered(key) for key in keys} == {401}
    assert answered(cookie) == 200
