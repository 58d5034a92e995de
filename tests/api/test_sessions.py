"""Sessions end when nobody uses them, are listed for their owner, and can be ended."""

import json
import time
from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.core.exceptions import ImproperlyConfigured
from django.test import Client, override_settings
from django.utils import timezone

from ringfence.access.models import Grant, LoginSession
from ringfence.access.sessions import BACKGROUND
from ringfence.audit.models import AuditEntry
from ringfence.environment import session_hours

PASSWORD = "a long enough password"
HOUR_MS = 3_600_000


@pytest.fixture(autouse=True)
def outside() -> Iterator[None]:
    with override_settings(NO_LOGIN="", ACCESS_TOKEN="", ALLOWED_HOSTS=["*"], SESSION_IDLE_MINUTES=60):
        yield


def log_in(name: str, what: str = "viewer", agent: str = "Firefox") -> Client:
    """A browser of this account's, which is made where it is not there yet."""
    if not User.objects.filter(username=name).exists():
        user = User.objects.create_user(name, password=PASSWORD)
        Grant.objects.create(user=user, what=what)
    browser = Client(headers={"host": "localhost", "user-agent": agent})
    browser.get("/ui/login")
    assert browser.post("/ui/login", {"name": name, "secret": PASSWORD}).status_code == 302
    assert browser.get("/connectors").status_code == 200
    return browser


def grow_idle(minutes: float) -> None:
    """As if that much time had passed since the last use."""
    LoginSession.objects.update(seen_ms=int(time.time() * 1000 - minutes * 60_000))


def test_an_idle_session_ends() -> None:
    browser = log_in("ann")
    grow_idle(59)
    assert browser.get("/connectors").status_code == 200
    grow_idle(61)
    assert browser.get("/connectors").status_code == 401
    assert browser.get("/ui/connectors").status_code == 302
    assert not LoginSession.objects.exists()
    grow_idle(0)
    assert browser.get("/connectors").status_code == 401, "it came back"


def test_a_row_is_worth_nothing_as_a_cookie_and_one_that_is_over_nothing_at_all() -> None:
    browser = log_in("ann")
    rows = list(Session.objects.values_list("session_key", flat=True))
    for stored in (*rows, LoginSession.objects.get().key_hash):
        thief = Client(headers={"host": "localhost"})
        thief.cookies[settings.SESSION_COOKIE_NAME] = stored
        assert thief.get("/connectors").status_code == 401
    Session.objects.update(expire_date=timezone.now() - timedelta(seconds=1))
    assert browser.get("/connectors").status_code == 401


def test_a_session_ends_however_much_it_is_used() -> None:
    browser = log_in("ann")
    with override_settings(SESSION_HOURS=8, SESSION_IDLE_MINUTES=0):
        for hours, status in ((7.9, 200), (8.1, 401)):
            LoginSession.objects.update(created_ms=int(time.time() * 1000 - hours * HOUR_MS))
            assert browser.get("/connectors").status_code == status
    assert not LoginSession.objects.exists()
    assert browser.get("/connectors").status_code == 401, "it came back"


@pytest.mark.parametrize("given", ["0", "-1", "1.5", "12h", "10001"])
def test_a_limit_that_cannot_be_meant_is_refused(given: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="RINGFENCE_SESSION_HOURS"):
        session_hours(given)
    assert (session_hours(""), session_hours("12")) == (336, 12)


def test_one_ends_all_ones_other_sessions_at_once() -> None:
    ann, other, bob = log_in("ann"), log_in("ann"), log_in("bob")
    assert "End my other sessions" in ann.get("/ui/settings/sessions").content.decode()
    assert "two weeks" not in ann.get("/ui/settings/sessions").content.decode()
    token = {"X-CSRFToken": ann.cookies["ringfence_csrf"].value}
    assert ann.delete("/api/v1/sessions/others", headers=token).json() == {"ended": 1}
    assert other.get("/connectors").status_code == 401
    assert [one.get("/connectors").status_code for one in (ann, bob)] == [200, 200]
    entry = AuditEntry.objects.get(action="end sessions")
    assert json.loads(entry.before) == {"account": "ann", "sessions": 1}
    assert "End my other sessions" not in ann.get("/ui/settings/sessions").content.decode()
    done = ann.post("/ui/settings/sessions/others/end", {"reason": "left a machine unlocked"})
    assert "0 other sessions of yours ended" in done.content.decode()


def test_what_an_open_page_asks_by_itself_is_no_use() -> None:
    browser = log_in("ann")
    for minutes in (20, 45, 61):
        grow_idle(minutes)
        answer = browser.get("/connectors", headers={BACKGROUND: "1"})
        assert answer.status_code == (200 if minutes < 60 else 401)


def test_no_limit_where_none_is_wanted() -> None:
    browser = log_in("ann")
    grow_idle(60 * 24 * 10)
    with override_settings(SESSION_IDLE_MINUTES=0):
        assert browser.get("/connectors").status_code == 200


def test_one_sees_and_ends_ones_own_and_nobody_elses() -> None:
    ann, elsewhere, bob = log_in("ann"), log_in("ann", agent="Safari"), log_in("bob")
    found = ann.get("/api/v1/sessions").json()["results"]
    assert {(one["account"], one["agent"], one["current"]) for one in found} == {
        ("ann", "Firefox", True),
        ("ann", "Safari", False),
    }
    (other,) = [one["id"] for one in found if not one["current"]]
    token = {"X-CSRFToken": ann.cookies["ringfence_csrf"].value}
    of_bob = LoginSession.objects.get(account="bob").pk
    assert ann.delete(f"/api/v1/sessions/{of_bob}", headers=token).status_code == 404
    assert ann.delete(f"/api/v1/sessions/{other}", headers=token).status_code == 204
    assert ann.delete(f"/api/v1/sessions/{other}", headers=token).status_code == 404
    assert elsewhere.get("/connectors").status_code == 401
    assert [browser.get("/connectors").status_code for browser in (ann, bob)] == [200, 200]
    entry = AuditEntry.objects.filter(action="end session", status=204).get()
    assert (entry.user, entry.connector) == ("ann", "")


def test_an_administrator_sees_and_ends_all() -> None:
    boss, bob = log_in("boss", "admin"), log_in("bob")
    assert {one["account"] for one in boss.get("/api/v1/sessions").json()["results"]} == {"boss", "bob"}
    assert b"bob" in boss.get("/ui/settings/sessions").content
    assert b"boss" not in bob.get("/ui/settings/sessions").content.split(b"<table")[-1]
    of_bob = LoginSession.objects.get(account="bob").pk
    assert bob.get(f"/ui/settings/sessions/{LoginSession.objects.get(account='boss').pk}/end/").status_code == 404
    page = boss.get(f"/ui/settings/sessions/{of_bob}/end")
    assert page.status_code == 200
    done = boss.post(f"/ui/settings/sessions/{of_bob}/end", {"reason": "laptop lost"})
    assert done.status_code == 200, done.content
    assert bob.get("/connectors").status_code == 401
    assert AuditEntry.objects.get(action="end session").message == "laptop lost"


def test_a_logout_leaves_nothing_in_the_list() -> None:
    ann, again = log_in("ann"), log_in("ann")
    ann.post("/ui/logout")
    assert len(again.get("/api/v1/sessions").json()["results"]) == 1


@pytest.mark.parametrize(
    ("what", "pattern", "status"), [("viewer", "*", 403), ("admin", "team-*", 403), ("admin", "*", 200)]
)
def test_a_token_with_a_limit_neither_sees_nor_ends_sessions(what: str, pattern: str, status: int) -> None:
    """They have all rights of the account, which the token has not."""
    from ringfence.access import tokens

    log_in("ann")
    browser = log_in("ann")
    row = LoginSession.objects.order_by("pk").last()
    assert row is not None
    _, text = tokens.create(User.objects.get(username="ann"), "ci", what.split(), pattern)
    token = {"authorization": f"Bearer {text}", "host": "localhost"}
    client = Client()
    for path in ("/api/v1/sessions", "/ui/settings/sessions", f"/ui/settings/sessions/{row.pk}/end"):
        answer = client.get(path, headers=token)
        assert answer.status_code == status, path
        assert status == 200 or b"127.0.0.1" not in answer.content, "it names an address"
    if status == 403:
        for path in (f"/api/v1/sessions/{row.pk}", "/api/v1/sessions/others"):
            assert client.delete(path, headers=token).status_code == 403, path
        for path in (f"/ui/settings/sessions/{row.pk}/end", "/ui/settings/sessions/others/end"):
            assert client.post(path, headers=token).status_code == 403, path
        assert browser.get("/connectors").status_code == 200
        assert LoginSession.objects.count() == 2
    else:
        assert client.delete("/api/v1/sessions/others", headers=token).json() == {"ended": 2}
