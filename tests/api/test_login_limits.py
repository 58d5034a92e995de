"""Guessing is slow: failures are counted per address and account, where all web processes see them."""

import json
import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from django.test import Client, override_settings

from ringfence.access import throttle


@pytest.fixture(autouse=True)
def _outside(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(throttle, "PER_ADDRESS", 6)
    monkeypatch.setattr(throttle, "PER_ACCOUNT", 3)
    now = time.time()
    # The first delay is a second: a busy machine may take longer for the next request.
    monkeypatch.setattr(throttle, "time", SimpleNamespace(time=lambda: now))
    with override_settings(NO_LOGIN="", ACCESS_TOKEN="master", ALLOWED_HOSTS=["*"]):
        yield


def ann() -> str:
    from django.contrib.auth.models import User

    from ringfence.access import tokens
    from ringfence.access.models import Grant

    user = User.objects.create_user("ann", password="right-password-1")
    Grant.objects.create(user=user, what="admin")
    return tokens.create(user, "ci", ["admin"])[1]


def login(client: Client, name: str, secret: str, address: str = "10.0.0.1") -> int:
    return client.post("/ui/login", {"name": name, "secret": secret}, REMOTE_ADDR=address).status_code


def test_guessing_at_an_account_delays_the_guesser_and_not_its_owner(client: Client) -> None:
    ann()
    assert [login(client, "ann", "wrong", "10.0.0.6") for _ in range(3)] == [200] * 3
    response = client.post("/ui/login", {"name": "Ann", "secret": "right-password-1"}, REMOTE_ADDR="10.0.0.6")
    assert response.status_code == 429
    assert int(response["retry-after"]) == 1
    assert b"Too many" in response.content
    for number in range(20):  # from everywhere else, too
        login(client, "ann", "wrong", f"10.0.1.{number}")
    assert login(client, "ann", "right-password-1", "10.0.0.9") == 302


def test_each_failure_doubles_the_delay() -> None:
    delays = [throttle.delay_seconds(failures, 3) for failures in (0, 2, 3, 4, 5, 10, 12, 100_000)]
    assert delays == [0, 0, 1, 2, 4, 128, 300, 300]


def test_an_address_is_stopped_whatever_account_it_tries(client: Client) -> None:
    ann()
    assert [login(client, f"user{n}", "wrong") for n in range(6)] == [200] * 6
    assert login(client, "ann", "right-password-1") == 429
    assert login(client, "ann", "right-password-1", "10.0.0.2") == 302


def test_the_delay_ends(client: Client) -> None:
    from ringfence.access.models import Throttle

    ann()
    for _ in range(3):
        login(client, "ann", "wrong")
    assert login(client, "ann", "right-password-1") == 429
    Throttle.objects.update(since_ms=Throttle.objects.values_list("since_ms", flat=True)[0] - 1000)
    assert login(client, "ann", "right-password-1") == 302
    assert not Throttle.objects.filter(key__startswith="account:").exists()


def test_wrong_tokens_get_429_and_right_ones_go_on(client: Client) -> None:
    from ringfence.access.models import Throttle

    text = ann()
    wrong = {"authorization": "Bearer rf_wrong"}
    assert [client.get("/connectors", headers=wrong).status_code for _ in range(6)] == [401] * 6
    response = client.get("/connectors", headers=wrong)
    assert response.status_code == 429
    assert int(response["retry-after"]) > 0
    assert json.loads(response.content)["error_code"] == 429
    assert Throttle.objects.get().failures == 6, "a stopped address costs no more writes"
    assert client.get("/connectors", headers={"authorization": f"Bearer {text}"}).status_code == 200
    master = {"authorization": "Bearer master"}
    assert client.get("/connectors", headers=master).status_code == 200, "nobody shuts it for others"
    assert client.get("/connectors").status_code == 401


def test_no_address_behind_a_proxy_stands_for_all(client: Client) -> None:
    wrong = {"authorization": "Bearer x", "x-forwarded-for": "6.6.6.6, 7.7.7.7"}
    with override_settings(BEHIND_PROXY=True):
        for _ in range(6):
            client.get("/connectors", headers=wrong)
        assert client.get("/connectors", headers=wrong).status_code == 429
        other = {**wrong, "x-forwarded-for": "7.7.7.7, 8.8.8.8"}
        assert client.get("/connectors", headers=other).status_code == 401
    assert client.get("/connectors", headers=wrong).status_code == 401, "the header counts only behind a proxy"


def test_logins_are_in_the_trail_without_what_was_typed(client: Client) -> None:
    from ringfence.audit.models import AuditEntry

    ann()
    login(client, "ann", "wrong-secret")
    login(client, "ann", "right-password-1")
    found = [(e.user, e.outcome, e.address) for e in AuditEntry.objects.order_by("id")]
    assert found == [("ann", "refused", "10.0.0.1"), ("ann", "done", "10.0.0.1")]
    assert "wrong-secret" not in str(list(AuditEntry.objects.values()))
