"""Cookies behind a proxy with TLS."""

import runpy
from pathlib import Path

import pytest
from django.test import Client, override_settings

import ringfence.settings as used

SETTINGS = Path(used.__file__)


@pytest.mark.parametrize(("given", "secure"), [("1", True), ("", False)])
def test_a_setting_marks_both_cookies_secure(given: str, secure: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RINGFENCE_SECURE_COOKIES", given)
    made = runpy.run_path(str(SETTINGS))
    assert bool(made["SECURE_HSTS_SECONDS"]) is secure
    assert (made["SESSION_COOKIE_SECURE"], made["CSRF_COOKIE_SECURE"]) == (secure, secure)


def test_a_login_over_the_proxy_gets_them(client: Client) -> None:
    outside = {"NO_LOGIN": "", "ACCESS_TOKEN": "master", "ALLOWED_HOSTS": ["*"], "BEHIND_PROXY": True}
    proxy = ("HTTP_X_FORWARDED_PROTO", "https")
    with override_settings(
        **outside,
        SECURE_HSTS_SECONDS=60,
        SESSION_COOKIE_SECURE=True,
        CSRF_COOKIE_SECURE=True,
        SECURE_PROXY_SSL_HEADER=proxy,
    ):
        page = client.get("/ui/login", headers={"x-forwarded-proto": "https"})
        answer = client.post("/ui/login", {"name": "", "secret": "master"}, headers={"x-forwarded-proto": "https"})
    assert page.cookies["ringfence_csrf"]["secure"] is True
    assert page["strict-transport-security"] == "max-age=60"
    assert answer.status_code == 302, answer.content
    assert answer.cookies["ringfence_session"]["secure"] is True
