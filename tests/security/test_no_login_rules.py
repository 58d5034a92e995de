"""Which requests need no login under `ringfence up`: one rule after the other, without a server."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.test import RequestFactory, override_settings

from ringfence.access import no_login
from ringfence.access.loopback_peer import CONNECTION, Peer
from ringfence.access.no_login import needs_no_login
from ringfence.connectors.process_tree import CannotTell
from ringfence.environment import NoLogin
from tests.support import database

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


PEER = Peer(os.getuid(), 4711)
OTHER = Peer(os.getuid() + 1, 4711)
UP, TASK, SHELL = 100, 200, 300


def tree(pid: int, root: int) -> bool:
    """`up` and a task of it; a shell. Any other process has ended."""
    if pid not in (UP, TASK, SHELL):
        raise CannotTell(str(pid))
    return root == UP and pid in (UP, TASK)


@pytest.mark.parametrize(
    ("peer", "who", "holders", "welcome"),
    [
        (PEER, NoLogin.SAME_USER, [SHELL], True),
        (PEER, NoLogin.SAME_USER, [TASK], False),
        (PEER, NoLogin.SAME_USER, [UP], False),
        (PEER, NoLogin.SAME_USER, [SHELL, TASK], False),
        (PEER, NoLogin.SAME_USER, [], False),
        (PEER, NoLogin.SAME_USER, [1], False),
        (PEER, NoLogin.SAME_USER, [SHELL, 1], False),
        (OTHER, NoLogin.SAME_USER, [SHELL], False),
        (PEER, NoLogin.MACHINE, [SHELL], True),
        (PEER, NoLogin.MACHINE, [TASK], False),
        (PEER, NoLogin.MACHINE, [], False),
        (OTHER, NoLogin.MACHINE, [], True),
        (OTHER, NoLogin.MACHINE, [TASK], False),
    ],
)
def test_whose_connection_it_is(
    monkeypatch: pytest.MonkeyPatch, peer: Peer, who: NoLogin, holders: list[int], welcome: bool
) -> None:
    monkeypatch.setattr(no_login, "find_holders", lambda *_: holders)
    monkeypatch.setattr(no_login, "is_in_tree", tree)
    assert no_login.is_welcome(peer, who, UP) is welcome


def test_a_connection_that_nobody_knows_logs_in(monkeypatch: pytest.MonkeyPatch) -> None:
    request = RequestFactory().get("/connectors")
    request.META.update(HERE)
    monkeypatch.setattr(no_login, "is_over", lambda: False)
    monkeypatch.setattr(no_login, "find_holders", lambda *_: [SHELL])
    monkeypatch.setattr(no_login, "is_in_tree", tree)
    with override_settings(NO_LOGIN=NoLogin.SAME_USER, PLATFORM_PID=UP):
        assert not needs_no_login(request), "it is not known whose connection that is"
        request.scope = {"client": ("127.0.0.1", 40000), "server": ("127.0.0.1", 8083)}  # type: ignore[attr-defined]
        for peer in (None, OTHER, PEER):
            monkeypatch.setattr(no_login, "find_peer", lambda *_, peer=peer: peer)
            assert needs_no_login(request) is (peer is PEER)
    with override_settings(NO_LOGIN="", PLATFORM_PID=UP):
        assert not needs_no_login(request), "nobody asked for it"


def test_a_connection_is_judged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its process may hand it on, or end, and does not become another one by that."""
    asked: list[object] = []
    monkeypatch.setattr(no_login, "is_over", lambda: False)
    monkeypatch.setattr(no_login, "find_peer", lambda *addresses: asked.append(addresses))
    request = RequestFactory().get("/connectors")
    request.META.update(HERE)
    addresses = {"client": ("127.0.0.1", 40000), "server": ("127.0.0.1", 8083)}
    request.scope = {**addresses, CONNECTION: {}}  # type: ignore[attr-defined]
    with override_settings(NO_LOGIN=NoLogin.SAME_USER, PLATFORM_PID=UP):
        assert [needs_no_login(request) for _ in range(3)] == [False] * 3
    assert len(asked) == 1


def test_it_is_over_with_the_first_account_and_stays_so(tmp_path: Path) -> None:
    database.migrate()
    database.empty()
    ended = tmp_path / "ended"
    with override_settings(NO_LOGIN=NoLogin.SAME_USER, NO_LOGIN_ENDED=ended):
        assert not no_login.is_over()
        account = User.objects.create_user("ann")
        assert no_login.is_over()
        assert ended.exists()
        account.delete()
        assert no_login.is_over(), "it does not open again by itself"
    with override_settings(NO_LOGIN=NoLogin.SAME_USER, NO_LOGIN_ENDED=ended):
        assert no_login.is_over(), "nor in the next web process of this `up`"
    ended.unlink()  # as `up` does at its start
    with override_settings(NO_LOGIN=NoLogin.SAME_USER, NO_LOGIN_ENDED=ended):
        assert not no_login.is_over()
