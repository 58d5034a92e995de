"""Single sign-on: who comes in, who does not and why, and what groups give; against a provider that also lies."""

import logging
import time
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.contrib.auth.models import User
from django.test import override_settings
from joserfc.jwk import ECKey, OctKey

from ringfence import quotas
from ringfence.access.models import OidcIdentity, Throttle
from ringfence.audit import accounts
from ringfence.audit.models import AuditEntry
from ringfence.quotas import Lane, Limits
from tests.support.oidc import FakeProvider, run
from tests.support.single_sign_on import PUBLIC, begin, browser, log_in, refusal, rights


def test_a_first_login_makes_the_account_with_what_its_groups_give(provider: FakeProvider) -> None:
    client = browser()
    assert "Continue with single sign-on" in " ".join(client.get("/ui/login").content.decode().split())
    came = log_in(provider, client, "/ui/connectors?q=a")
    assert (came.status_code, came["location"]) == (302, "/ui/connectors?q=a")
    assert client.get("/connectors").status_code == 200
    assert rights("ann") == {("editor", "team-a-*", "team-a.*"), ("viewer", "*", "*")}
    assert not User.objects.get(username="ann").has_usable_password()
    (session,) = client.get("/api/v1/sessions").json()["results"]
    assert (session["account"], session["via"]) == ("ann", "session by single sign-on")
    trail = AuditEntry.objects.order_by("pk").values_list("action", "user", "via", "outcome")
    assert list(trail) == [
        (action, "ann", "single sign-on", "done") for action in ("create account", "grant by groups", "login")
    ]
    assert provider.sent[0]["redirect_uri"] == f"{PUBLIC}/ui/login/sso/callback"


def test_each_login_takes_the_groups_as_they_are_then(provider: FakeProvider) -> None:
    client = browser()
    log_in(provider, client)
    accounts.grant("ann", ["operate"], "other")
    provider.user["groups"] = ["ops", "unknown"]
    assert log_in(provider).status_code == 302
    assert rights("ann") == {("viewer", "*", "*"), ("operate", "other", "*")}, "the former group's rights go at once"
    assert client.get("/connectors").status_code == 200
    with pytest.raises(ValueError, match="RINGFENCE_OIDC_GROUPS_FILE"):
        accounts.ungrant("ann", "*")
    accounts.ungrant("ann", "other")
    provider.user["groups"] = []
    assert "sent no groups in the claim 'groups'" in refusal(log_in(provider))
    assert rights("ann") == set()
    assert client.get("/connectors").status_code == 403, "an open session has lost the rights, too"


def test_who_has_no_group_that_counts_is_refused_with_the_reason(provider: FakeProvider) -> None:
    provider.user["groups"] = ["sales"]
    assert refusal(log_in(provider)).startswith(
        "None of your groups gives permissions here (sales). Ask to be added to"
    )
    assert not User.objects.exists()
    (entry,) = AuditEntry.objects.all()
    assert (entry.action, entry.user, entry.outcome) == ("login", "ann", "refused")
    assert "subject s-1" in entry.message
    del provider.user["groups"]
    assert "RINGFENCE_OIDC_GROUPS_CLAIM" in refusal(log_in(provider))


def test_a_claim_that_the_token_leaves_out_is_asked_for(provider: FakeProvider) -> None:
    provider.userinfo = {"groups": ["ops"], "sub": "s-1", "preferred_username": "eve"}
    del provider.user["groups"]
    assert log_in(provider).status_code == 302
    assert rights("ann") == {("viewer", "*", "*")}, "the signed token's name counts"
    provider.userinfo["sub"] = "s-2"
    assert "is for another person" in refusal(log_in(provider))


def test_an_equal_name_takes_no_account_over(provider: FakeProvider) -> None:
    accounts.create("Ann", "a long enough password", ["admin"])
    said = refusal(log_in(provider))
    assert "not linked to you" in said
    assert "ringfence users link ann --subject s-1" in said
    assert not OidcIdentity.objects.exists()
    assert rights("Ann") == {("admin", "*", "*")}
    accounts.link("Ann", provider.issuer, "s-1")
    client = browser()
    assert log_in(provider, client).status_code == 302
    assert rights("Ann") >= {("admin", "*", "*"), ("editor", "team-a-*", "team-a.*")}
    for name, subject in (("Ann", "s-9"), ("Ann", "s-1")):
        with pytest.raises(ValueError, match="unlink"):
            accounts.link(name, provider.issuer, subject)
    assert client.get("/connectors").status_code == 200
    accounts.unlink("Ann", provider.issuer)
    assert client.get("/connectors").status_code == 401, "the session ends with the link"
    assert rights("Ann") == {("admin", "*", "*")}


def test_another_subject_of_the_same_name_and_a_disabled_account_stay_out(provider: FakeProvider) -> None:
    client = browser()
    log_in(provider, client)
    provider.user["sub"] = "s-2"
    assert "not linked to you" in refusal(log_in(provider))
    provider.user |= {"sub": "s-1", "preferred_username": "renamed"}
    assert log_in(provider).status_code == 302
    assert [user.username for user in User.objects.all()] == ["ann"], "a new name there is the same account here"
    accounts.set_active("ann", False)
    assert "is disabled here" in refusal(log_in(provider))
    assert client.get("/connectors").status_code == 401


@pytest.mark.parametrize(
    ("claims", "says"),
    [
        ({"nonce": "of another login"}, "(nonce)"),
        ({"nonce": None}, "(nonce)"),
        ({"aud": "another-client"}, "(aud)"),
        ({"aud": ["ringfence", "another-client"]}, "(azp)"),
        ({"azp": "another-client"}, "(azp)"),
        ({"iss": "https://elsewhere.example"}, "(iss)"),
        ({"exp": int(time.time()) - 120}, "not valid"),
        ({"iat": int(time.time()) + 3600}, "not valid"),
        ({"at_hash": "b2YgYW5vdGhlciB0b2tlbg"}, "(at_hash)"),
        ({"sub": ""}, "(sub)"),
        ({"sub": None}, "(sub)"),
    ],
)
def test_a_token_that_is_not_for_this_login_proves_nothing(
    provider: FakeProvider, claims: dict[str, Any], says: str
) -> None:
    provider.token_claims = claims
    said = refusal(log_in(provider))
    assert "ID token is not valid" in said
    assert says in said
    assert not User.objects.exists()


def test_only_the_providers_own_keys_sign(provider: FakeProvider, caplog: pytest.LogCaptureFixture) -> None:
    provider.signs_with = ECKey.generate_key("P-256", {"kid": provider.key.kid})
    assert "bad_signature" in refusal(log_in(provider))
    provider.signs_with = ECKey.generate_key("P-256", auto_kid=True)
    assert "invalid_key_id" in refusal(log_in(provider))
    provider.signs_with, provider.algorithm = OctKey.import_key(provider.secret), "HS256"
    assert "ID token is not valid" in refusal(log_in(provider)), "the client's secret is no proof"
    assert not User.objects.exists()
    for secret in ("access-1", provider.secret, "eyJ", "code-1"):
        assert secret not in caplog.text


def test_keys_may_change_between_two_logins(provider: FakeProvider) -> None:
    assert log_in(provider).status_code == 302
    provider.key = ECKey.generate_key("P-256", auto_kid=True)
    assert log_in(provider).status_code == 302
    assert provider.asked.count("/jwks") == 2
    assert log_in(provider).status_code == 302
    assert provider.asked.count("/jwks") == 2
    assert provider.asked.count("/.well-known/openid-configuration") == 1


def test_only_the_browser_that_began_a_login_completes_it(provider: FakeProvider) -> None:
    mine, other = browser(), browser()
    answer = provider.log_in(begin(mine))
    begin(other)
    for client, given in ((other, answer), (browser(), answer), (mine, answer | {"state": "x"}), (mine, {"code": "c"})):
        assert "not started in this browser" in refusal(client.get("/ui/login/sso/callback", given))
    assert provider.sent == []
    answer = provider.log_in(begin(mine))
    assert mine.get("/ui/login/sso/callback", answer).status_code == 302
    assert "not started" in refusal(mine.get("/ui/login/sso/callback", answer)), "no answer counts twice"


def test_an_answer_counts_once_even_with_its_cookie(provider: FakeProvider) -> None:
    """The cookie is the browser's to keep, so the server remembers; the provider may accept a code twice."""
    mine = browser()
    answer = provider.log_in(begin(mine))
    cookie = mine.cookies["ringfence_sso"].value
    assert mine.get("/ui/login/sso/callback", answer).status_code == 302
    sent = len(provider.sent)
    again = browser()
    again.cookies["ringfence_sso"] = cookie
    assert "counts once" in refusal(again.get("/ui/login/sso/callback", answer))
    assert len(provider.sent) == sent
    assert again.get("/connectors").status_code == 401


def test_a_refused_answer_counts_once_too(provider: FakeProvider) -> None:
    mine = browser()
    answer = provider.log_in(begin(mine))
    cookie = mine.cookies["ringfence_sso"].value
    assert mine.get("/ui/login/sso/callback", {**answer, "error": "access_denied"}).status_code == 403
    mine.cookies["ringfence_sso"] = cookie
    assert "counts once" in refusal(mine.get("/ui/login/sso/callback", answer))


def test_states_are_forgotten_when_their_cookie_is_worth_nothing(provider: FakeProvider) -> None:
    from ringfence.access import sessions
    from ringfence.access.models import UsedState

    log_in(provider)
    sessions.prune_used_tokens()
    assert UsedState.objects.count() == 1
    UsedState.objects.update(time_ms=0)
    sessions.prune_used_tokens()
    assert UsedState.objects.count() == 0


def test_a_login_takes_a_quarter_of_an_hour_at_most(provider: FakeProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    client = browser()
    answer, now = provider.log_in(begin(client)), time.time()
    with monkeypatch.context() as patch:
        patch.setattr("django.core.signing.time.time", lambda: now + 901)
        assert "15 minutes" in refusal(client.get("/ui/login/sso/callback", answer))


def test_the_provider_must_be_the_one_that_was_asked(provider: FakeProvider) -> None:
    client = browser()
    answer = provider.log_in(begin(client)) | {"iss": "https://elsewhere.example"}
    assert "from another provider" in refusal(client.get("/ui/login/sso/callback", answer))
    answer = provider.log_in(begin(client)) | {"iss": provider.issuer}
    assert client.get("/ui/login/sso/callback", answer).status_code == 302


def test_wrong_codes_are_delayed_as_wrong_passwords_are(provider: FakeProvider) -> None:
    client = browser()
    answer = provider.log_in(begin(client)) | {"code": "guessed"}
    assert "(invalid_grant)" in refusal(client.get("/ui/login/sso/callback", answer))
    Throttle.objects.update(failures=40)
    answer = provider.log_in(begin(client))
    assert client.get("/ui/login/sso/callback", answer).status_code == 429
    assert len(provider.sent) == 1


def test_no_login_leads_to_another_site(provider: FakeProvider) -> None:
    for bad in ("https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)", "evil"):
        assert log_in(provider, next_page=bad)["location"] == "/ui/connectors"


def test_what_the_provider_answers_in_place_of_a_code_is_explained(provider: FakeProvider) -> None:
    client = browser()
    state = provider.log_in(begin(client))["state"]
    said = refusal(
        client.get(
            "/ui/login/sso/callback",
            {"error": "access_denied", "error_description": "call 555", "state": state},
        )
    )
    assert "not assigned to this application" in said
    assert "555" not in said
    state = provider.log_in(begin(client))["state"]
    assert "the error scriptx." in refusal(client.get("/ui/login/sso/callback", {"error": "<script>x", "state": state}))


def test_the_egress_policy_holds_for_the_issuer_and_for_where_it_points(
    provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONNECT_EGRESS_ALLOW", "public")
    said = refusal(browser().get("/ui/login/sso"))
    assert "not allowed by the worker's egress.allow" in said
    assert provider.asked == []
    port = urlsplit(provider.issuer).port
    monkeypatch.setenv("CONNECT_EGRESS_ALLOW", f"loopback:{port}")
    with run(FakeProvider(key=provider.key)) as elsewhere:
        provider.metadata = {"jwks_uri": f"{elsewhere.issuer}/jwks"}
        assert "egress.allow" in refusal(log_in(provider))
        assert elsewhere.asked == []


@pytest.mark.parametrize(
    ("metadata", "says"),
    [
        ({"issuer": "https://other.example"}, "must be exactly RINGFENCE_OIDC_ISSUER"),
        ({"token_endpoint": "http://elsewhere.example/token"}, "no https address as token_endpoint"),
        ({"authorization_endpoint": "javascript:alert(1)"}, "no https address as authorization_endpoint"),
    ],
)
def test_a_provider_that_says_nonsense_of_itself_is_not_used(
    provider: FakeProvider, metadata: dict[str, Any], says: str
) -> None:
    provider.metadata = metadata
    assert says in refusal(browser().get("/ui/login/sso"))
    assert "Try again" in refusal(browser().get("/ui/login/sso"))
    assert len(provider.asked) == 1, "after a failure nobody asks again at once"


def test_passwords_can_be_switched_off_and_tokens_stay(provider: FakeProvider) -> None:
    accounts.create("boss", "a long enough password", ["admin"])
    by_password, by_provider = browser(), browser()
    assert by_password.post("/ui/login", {"name": "boss", "secret": "a long enough password"}).status_code == 302
    assert by_password.get("/connectors").status_code == 200
    log_in(provider, by_provider)
    text = accounts.create_token("boss", "t", ["viewer"], "*", 60)
    with override_settings(PASSWORD_LOGIN=False):
        assert by_password.get("/connectors").status_code == 401
        assert by_provider.get("/connectors").status_code == 200
        again = browser().post("/ui/login", {"name": "boss", "secret": "a long enough password"})
        assert "by single sign-on here" in again.content.decode()
        assert 'name="name"' not in again.content.decode()
        assert browser().post("/ui/login", {"secret": text}).status_code == 302
    with override_settings(OIDC=None):
        assert by_provider.get("/connectors").status_code == 401
        assert browser().get("/ui/login/sso").status_code == 404
        assert "/sso" not in browser().get("/ui/login").content.decode()


def test_a_logout_offers_the_end_of_the_session_at_the_provider(provider: FakeProvider) -> None:
    client = browser()
    log_in(provider, client)
    assert client.post("/ui/logout")["location"] == "/ui/login/sso/ended"
    assert client.get("/connectors").status_code == 401
    page = client.get("/ui/login/sso/ended").content.decode()
    link = page.split('class="button" href="')[1].split('"')[0].replace("&amp;", "&")
    assert link.startswith(f"{provider.issuer}/end?")
    assert parse_qs(urlsplit(link).query) == {
        "client_id": ["ringfence"],
        "post_logout_redirect_uri": [f"{PUBLIC}/ui/login"],
    }


def test_a_tokens_session_ends_where_an_account_logs_in(provider: FakeProvider) -> None:
    client = browser()
    with override_settings(ACCESS_TOKEN="a token of the server's"):
        assert client.post("/ui/login", {"secret": "a token of the server's"}).status_code == 302
        log_in(provider, client)
        assert client.get("/api/v1/sessions").json()["results"][0]["account"] == "ann"


def test_nothing_secret_is_logged_or_kept(provider: FakeProvider, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    client = browser()
    came = log_in(provider, client)
    assert client.get("/ui/connectors").status_code == 200
    kept = caplog.text + repr(client.session.items()) + repr(list(AuditEntry.objects.values())) + repr(came.headers)
    for secret in ("access-1", "eyJ", provider.secret, "code-1", provider.sent[0]["code_verifier"]):
        assert secret not in kept


def test_logins_in_progress_leave_threads_to_others_and_can_be_completed_later(
    provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quotas, "STRANGERS", Lane("logins", Limits(1, 1, waiting=0, burst=10, per_second=10)))
    client = browser()
    came_back = provider.log_in(begin(client))
    with quotas.STRANGERS.take("another address"):
        assert "Too many logins are in progress" in refusal(client.get("/ui/login/sso/callback", came_back))
    assert client.get("/ui/login/sso/callback", came_back).status_code == 302
