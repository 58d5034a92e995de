"""Back-channel logout: the provider ends sessions here, and nobody else does; linking accounts on the page."""

import time
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from joserfc.jwk import ECKey, OctKey

from ringfence.access import sessions
from ringfence.access.models import OidcIdentity, ProviderSession, UsedLogoutToken
from ringfence.audit import accounts
from ringfence.audit.models import AuditEntry
from tests.support.oidc import FakeProvider
from tests.support.single_sign_on import browser, log_in, refusal, rights

ADDRESS = "/ui/login/sso/logout"
EVENT = "http://schemas.openid.net/event/backchannel-logout"


def logged_in(provider: FakeProvider, sid: str | None = None) -> Client:
    client = browser()
    provider.token_claims = {"sid": sid} if sid else {}
    assert log_in(provider, client).status_code == 302
    assert is_in(client)
    return client


def is_in(client: Client) -> bool:
    return bool(client.get("/connectors").status_code == 200)


def post(token: str) -> int:
    """As a provider does: without a cookie or a CSRF token."""
    client = Client(headers={"host": "localhost"}, enforce_csrf_checks=True)
    response = client.post(ADDRESS, {"logout_token": token})
    assert "no-store" in response["cache-control"]
    return int(response.status_code)


def test_a_subject_is_logged_out_everywhere_and_others_stay(provider: FakeProvider) -> None:
    one, two = logged_in(provider, "a"), logged_in(provider)
    accounts.set_password("ann", "right-password-1")
    local = browser()
    assert local.post("/ui/login", {"name": "ann", "secret": "right-password-1"}).status_code == 302
    provider.user = {"sub": "s-2", "preferred_username": "bob", "groups": ["team-a"]}
    bob = logged_in(provider)
    assert post(provider.logout_token(sub="s-1")) == 200
    assert [is_in(each) for each in (one, two, local, bob)] == [False, False, True, True]
    entry = AuditEntry.objects.get(action="logout")
    assert (entry.user, entry.via, "sessions ended: 2" in entry.message) == ("ann", "single sign-on", True)


def test_a_session_of_the_provider_ends_and_the_subjects_others_stay(provider: FakeProvider) -> None:
    one, two = logged_in(provider, "a"), logged_in(provider, "b")
    assert post(provider.logout_token(sid="b", sub=None)) == 200
    assert [is_in(each) for each in (one, two)] == [True, False]
    assert post(provider.logout_token(sid="a", sub="s-2")) == 200, "it is nobody's session, which is no error"
    assert is_in(one)
    assert post(provider.logout_token(sid="a")) == 200
    assert not is_in(one)


WRONG: list[dict[str, Any]] = [
    {"iss": "https://elsewhere.example.org"}, {"aud": "another"}, {"aud": ["another"]}, {"aud": None},
    {"iat": 1}, {"iat": None}, {"iat": "now"}, {"iat": True}, {"iat": 99_999_999_999}, {"exp": 1},
    {"events": None}, {"events": {}}, {"events": {EVENT: True}}, {"events": [EVENT]},
    {"events": {"http://schemas.openid.net/event/other": {}}}, {"nonce": "n"}, {"jti": None}, {"jti": ""}, {"jti": 7},
    {"sub": None}, {"sub": ""}, {"sub": 1}, {"sub": None, "sid": 1}, {"sub": "s" * 256}, {"typ": "at+jwt"},
]  # fmt: skip


@pytest.mark.parametrize("changes", WRONG, ids=str)
def test_a_token_with_a_wrong_claim_ends_nothing(provider: FakeProvider, changes: dict[str, Any]) -> None:
    client = logged_in(provider)
    assert post(provider.logout_token(**changes)) == 400
    assert is_in(client)
    assert not UsedLogoutToken.objects.exists()


def test_a_token_that_the_provider_did_not_sign_ends_nothing(provider: FakeProvider) -> None:
    client = logged_in(provider)
    right = provider.key
    provider.signs_with = ECKey.generate_key("P-256", auto_kid=True)
    assert post(provider.logout_token()) == 400
    provider.signs_with, provider.algorithm = OctKey.import_key(provider.secret), "HS256"
    assert post(provider.logout_token()) == 400
    provider.signs_with, provider.algorithm = None, "ES256"
    head, body, _ = provider.logout_token().split(".")
    for forged in (f"{head}.{body}.", "eyJhbGciOiJub25lIn0." + body + ".", "x", "", "x" * 20_000):
        assert post(forged) == 400
    assert is_in(client)
    assert provider.key is right


def test_forged_tokens_do_not_make_it_ask_for_the_keys_each_time(provider: FakeProvider) -> None:
    logged_in(provider)
    asked = provider.asked.count("/jwks")
    provider.signs_with = ECKey.generate_key("P-256", auto_kid=True)
    for _ in range(10):
        assert post(provider.logout_token()) == 400
    assert provider.asked.count("/jwks") <= asked + 1


def test_a_token_counts_once(provider: FakeProvider) -> None:
    logged_in(provider)
    token = provider.logout_token()
    assert post(token) == 200
    again = logged_in(provider)
    assert post(token) == 400
    assert is_in(again)


def test_what_is_remembered_goes_with_the_session_and_the_token(provider: FakeProvider) -> None:
    client = logged_in(provider)
    assert post(provider.logout_token(sub="nobody")) == 200
    assert sessions.prune_used_tokens() == 0
    client.post("/ui/logout")
    UsedLogoutToken.objects.update(time_ms=(time.time() - 3600) * 1000)
    assert sessions.prune_used_tokens() == 2
    assert not ProviderSession.objects.exists()
    assert not UsedLogoutToken.objects.exists()


def test_an_account_is_linked_and_unlinked_on_the_page(provider: FakeProvider) -> None:
    for name in ("root", "ann"):
        accounts.create(name, "right-password-1", ["admin"] if name == "root" else ["viewer"])
    assert "not linked to you" in refusal(log_in(provider))
    root = browser()
    assert root.post("/ui/login", {"name": "root", "secret": "right-password-1"}).status_code == 302
    assert 'href="/ui/settings/people/ann/link"' in root.get("/ui/settings/people").content.decode()
    page = "/ui/settings/people/ann/link"
    assert root.post(page, {"subject": "", "reason": "r"}).status_code == 400
    assert root.post(page, {"subject": "s-1", "reason": "hers"}).status_code == 200
    assert root.post("/ui/settings/people/root/link", {"subject": "s-1", "reason": "r"}).status_code == 400
    assert AuditEntry.objects.filter(action="link account", user="root").exists()
    client = logged_in(provider)
    assert ("editor", "team-a-*", "team-a.*") in rights("ann")
    assert client.get(page).status_code == 403, "nobody links themselves to more"
    unlink = "/ui/settings/people/ann/unlink"
    assert f'href="{unlink}"' in root.get("/ui/settings/people").content.decode()
    assert root.post(unlink, {"reason": "gone", "confirm": "ann"}).status_code == 200
    assert not OidcIdentity.objects.exists()
    assert not is_in(client)
    assert rights("ann") == {("viewer", "*", "*")}
    assert root.get(unlink).status_code == 404
    assert User.objects.filter(username="ann").exists()


def test_wrong_tokens_of_one_address_are_delayed_and_the_provider_is_heard(provider: FakeProvider) -> None:
    client = logged_in(provider)

    def send(token: str, address: str) -> Any:
        return Client(headers={"host": "localhost"}, REMOTE_ADDR=address).post(ADDRESS, {"logout_token": token})

    wrong = provider.logout_token(iss="https://elsewhere.example.org")
    answers = [send(wrong, "10.9.9.9") for _ in range(40)]
    assert {each.status_code for each in answers} == {400, 429}
    assert int(answers[-1]["retry-after"]) >= 1
    assert is_in(client)
    assert send(provider.logout_token(), "10.1.1.1").status_code == 200
    assert not is_in(client)


def test_logouts_take_no_place_of_logins(provider: FakeProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    from threading import BoundedSemaphore

    from ringfence.access.oidc import provider as providers

    none = BoundedSemaphore(1)
    none.acquire()
    client = logged_in(provider)
    with monkeypatch.context() as full:
        full.setattr(providers, "_logout_slots", none)
        assert post(provider.logout_token()) == 400
        assert is_in(logged_in(provider))
    with monkeypatch.context() as full:
        full.setattr(providers, "_slots", none)
        assert post(provider.logout_token()) == 200
    assert not is_in(client)
