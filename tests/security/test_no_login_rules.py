"""Which requests need no login under `ringfence up`: one rule after the other, without a server."""

import os
from collections.abc import Mapping

import pytest
from django.test import RequestFactory, override_settings

from ringfence.access import no_login
from ringfence.access.no_login import needs_no_login
from ringfence.environment import NoLogin

HERE = {"REMOTE_ADDR": "127.0.0.1", "HTTP_HOST": "localhost:8083"}


def passes(changed: Mapping[str, str], no_login: str = NoLogin.MACHINE) -> bool:
    request = RequestFactory().get("/connectors")
    request.META.update({**HERE, **changed})
    with override_settings(NO_LOGIN=no_login):
        return needs_no_login(request)


def test_this_machine_needs_none_where_up_says_so_and_only_there() -> None:
    assert passes({})
    assert passes({"REMOTE_ADDR": "::ffff:127.0.0.1", "HTTP_HOST": "[::1]:8083"})
    assert not passes({}, "")


@pytest.mark.parametrize(
    "changed",
    [
        {"REMOTE_ADDR": "10.0.0.7"},
        {"REMOTE_ADDR": ""},
        {"HTTP_HOST": "ringfence.example.com"},
        {"HTTP_HOST": ""},
        {"HTTP_HOST": "localhost.example.com"},
        {"HTTP_FORWARDED": "for=10.0.0.7"},
        {"HTTP_VIA": "1.1 proxy"},
        {"HTTP_X_REAL_IP": "10.0.0.7"},
        {"HTTP_X_FORWARDED_FOR": "10.0.0.7"},
        {"HTTP_X_FORWARDED_HOST": ""},
    ],
    ids=str,
)
def test_whoever_comes_from_elsewhere_or_was_passed_on_logs_in(changed: Mapping[str, str]) -> None:
    assert not passes(changed)


def test_another_user_of_the_machine_logs_in(monkeypatch: pytest.MonkeyPatch) -> None:
    request = RequestFactory().get("/connectors")
    request.META.update(HERE)
    with override_settings(NO_LOGIN=NoLogin.SAME_USER):
        assert not needs_no_login(request), "it is not known whose connection that is"
        request.scope = {"client": ("127.0.0.1", 40000), "server": ("127.0.0.1", 8083)}  # type: ignore[attr-defined]
        for owner, expected in ((os.getuid(), True), (os.getuid() + 1, False), (None, False)):
            monkeypatch.setattr(no_login, "user_of", lambda *_, owner=owner: owner)
            assert needs_no_login(request) is expected
    monkeypatch.setattr(no_login, "user_of", lambda *_: os.getuid())
    with override_settings(NO_LOGIN=""):
        assert not needs_no_login(request), "nobody asked for it"
