"""Tokens for logins with SASL OAUTHBEARER: settings, lifetimes, and what an endpoint may answer."""

import base64
import json
import time
from collections.abc import Iterator

import pytest

from ringfence.connectors.sdk import worker_limits
from ringfence.connectors.sdk.kafka_settings import oauth_tokens
from ringfence.connectors.sdk.kafka_settings.java_names import Role, merge, translate
from ringfence.connectors.sdk.kafka_settings.oauth_tokens import NoToken, source_of
from ringfence.connectors.sdk.kafka_settings.security import overlay
from ringfence.connectors.sdk.secret_names import secret_by_name
from ringfence.connectors.sdk.worker_limits import WorkerLimits
from ringfence.fencing.errors import Fatal, Invalid
from ringfence.fencing.kafka.connection import Connection, connection_of
from ringfence.fencing.transactions.login import login
from ringfence.fencing.transactions.producer import Producer
from tests.support.token_endpoint import CLIENT, SCOPE, SECRET, TokenEndpoint, token_endpoint

MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
TOKENS = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.token.endpoint.url": "https://issuer.example.com/token",
    "sasl.oauthbearer.client.id": "worker",
    "sasl.oauthbearer.client.secret": "of-the-worker",
}


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[TokenEndpoint]:
    monkeypatch.setattr(worker_limits, "_current", [WorkerLimits(egress="public,private,loopback")])
    with token_endpoint() as started:
        yield started


@pytest.mark.parametrize(
    "given",
    [
        {
            "sasl.jaas.config": f'{MODULE} required clientId="me" clientSecret="sec;ret" scope="a b" '
            'extension_pool="p-1";',
            "sasl.login.callback.handler.class": HANDLER,
        },
        {
            "sasl.jaas.config": f"{MODULE} required ;",
            "sasl.oauthbearer.jwt.retriever.class": (
                "org.apache.kafka.common.security.oauthbearer.ClientCredentialsJwtRetriever"
            ),
            "sasl.oauthbearer.client.credentials.client.id": "me",
            "sasl.oauthbearer.client.credentials.client.secret": "sec;ret",
            "sasl.oauthbearer.scope": "a b",
            "sasl.oauthbearer.extensions": "pool=p-1",
        },
        {
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": "me",
            "sasl.oauthbearer.client.secret": "sec;ret",
            "sasl.oauthbearer.scope": "a b",
            "sasl.oauthbearer.extensions": "pool=p-1",
        },
    ],
    ids=["login-module", "java", "librdkafka"],
)
def test_each_clients_names_for_the_same_login(given: dict[str, str]) -> None:
    common = {name: TOKENS[name] for name in list(TOKENS)[:3]}
    translation = translate(Role.CONSUMER, {**common, **given})
    assert translation.errors == {}
    settings = {name: value for name, value in translation.settings.items() if name != "sasl.oauthbearer.method"}
    assert settings == {
        **common,
        "sasl.oauthbearer.client.id": "me",
        "sasl.oauthbearer.client.secret": "sec;ret",
        "sasl.oauthbearer.scope": "a b",
        "sasl.oauthbearer.extensions": "pool=p-1",
    }
    assert oauth_tokens.uses_tokens(settings)
    assert "sec;ret" not in repr(translation)


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("sasl.oauthbearer.token.endpoint.url", "file:///var/run/token", "https://"),
        ("sasl.oauthbearer.token.endpoint.url", "https://me:hunter22@issuer/token", "contains a user"),
        ("sasl.oauthbearer.extensions", "auth=x", "names consist of letters"),
        ("sasl.oauthbearer.extensions", "a=x\x01auth=y", "names consist of letters"),
        ("sasl.oauthbearer.method", "default", "one of oidc"),
        ("sasl.login.callback.handler.class", "com.example.Handler", "no counterpart"),
        ("sasl.oauthbearer.client.secret", "", "a string is expected"),
        ("sasl.jaas.config", f'{MODULE} required unsecuredLoginStringClaim_sub="a";', "no counterpart"),
        ("sasl.mechanism", "GSSAPI", "one of PLAIN"),
    ],
)
def test_what_is_refused(name: str, value: str, why: str) -> None:
    (text,) = translate(Role.ADMIN, {name: value}).errors.values()
    assert why in text
    assert "hunter22" not in text.partition(":")[2] or name.endswith("url")


def test_no_layer_tells_the_secret_below_it_to_an_endpoint_of_its_own() -> None:
    theirs = {"sasl.oauthbearer.token.endpoint.url": "https://evil.example.com/token"}
    merged = merge(
        Role.PRODUCER,
        [
            ("producer.", {f"producer.{name}": value for name, value in TOKENS.items()}),
            ("producer.override.", {f"producer.override.{name}": value for name, value in theirs.items()}),
        ],
    )
    assert "of-the-worker" not in merged.settings.values()
    assert "of-the-worker" not in overlay(TOKENS, theirs).values()
    for ca in ("https.ca.location", "https.ca.pem"):
        assert "of-the-worker" not in overlay(TOKENS, {ca: "x"}).values()
    overrides = {f"producer.override.{name}": value for name, value in theirs.items()}
    connection = connection_of(Role.PRODUCER, Connection("k:1", TOKENS), {}, overrides)
    assert "of-the-worker" not in connection.settings.values()
    lacking = r"needs sasl\.oauthbearer\.client\.id, sasl\.oauthbearer\.client\.secret"
    with pytest.raises(Fatal, match=lacking):
        connection.librdkafka()
    with pytest.raises(Fatal, match=lacking):
        Producer(connection, "id")


def test_a_layer_with_its_own_secret_keeps_the_endpoint() -> None:
    jaas = f'{MODULE} required clientId="tenant" clientSecret="of-the-tenant";'
    connection = connection_of(
        Role.PRODUCER, Connection("k:1", TOKENS), {}, {"producer.override.sasl.jaas.config": jaas}
    )
    assert connection.settings == {
        **TOKENS,
        "sasl.oauthbearer.client.id": "tenant",
        "sasl.oauthbearer.client.secret": "of-the-tenant",
    }


def test_an_endpoint_that_may_not_be_asked_is_refused_at_validation() -> None:
    with pytest.raises(Invalid, match=r"egress\.allow"):
        connection_of(
            Role.PRODUCER,
            Connection("k:1", TOKENS),
            {},
            {
                "producer.override.sasl.oauthbearer.token.endpoint.url": "http://169.254.169.254/token",
                "producer.override.sasl.oauthbearer.client.id": "a",
                "producer.override.sasl.oauthbearer.client.secret": "b",
            },
        )


def test_which_settings_are_secrets() -> None:
    assert secret_by_name("admin.override.sasl.oauthbearer.client.credentials.client.secret")
    assert secret_by_name("sasl.oauthbearer.client.secret")
    assert not secret_by_name("sasl.oauthbearer.client.credentials.client.id")
    assert not secret_by_name("sasl.oauthbearer.token.endpoint.url")


def test_one_token_for_all_clients_of_a_login(endpoint: TokenEndpoint) -> None:
    source = source_of(endpoint.settings)
    assert source_of(dict(endpoint.settings)) is source
    token = source.token()
    assert source.answer_librdkafka("") == (token.value, token.expires_at, CLIENT, {})
    assert endpoint.given == [token.value]
    assert 3590 < token.expires_at - time.time() <= 3600
    assert SECRET not in repr(source) + repr(token)
    assert token.value not in repr(token)
    other = source_of({**endpoint.settings, "sasl.oauthbearer.scope": f"{SCOPE} "})
    assert other is not source


def test_what_is_sent_to_the_broker(endpoint: TokenEndpoint) -> None:
    source = source_of({**endpoint.settings, "sasl.oauthbearer.extensions": "pool=p-1, cluster=lkc-1"})
    exchange = login("OAUTHBEARER", "", "", source)
    expected = f"n,,\x01auth=Bearer {source.token().value}\x01pool=p-1\x01cluster=lkc-1\x01\x01"
    assert next(exchange) == expected.encode()
    assert exchange.send(b'{"status":"invalid_token"}') == b"\x01", "only then the broker tells its error"


def test_a_token_is_renewed_in_time_and_kept_while_the_endpoint_is_away(endpoint: TokenEndpoint) -> None:
    endpoint.lifetime_s = 2.0
    source = source_of({**endpoint.settings, "sasl.oauthbearer.token.endpoint.url": endpoint.url + "&a=1"})
    first = source.token()
    endpoint.answer = 503, b""
    time.sleep(max(0.0, first.renew_at - time.time()))
    if time.time() < first.usable_until:
        assert source.token() == first, "it is still good"
    time.sleep(max(0.0, first.usable_until - time.time()))
    with pytest.raises(NoToken, match="HTTP 503") as raised:
        source.token()
    assert not raised.value.refused
    endpoint.answer = None
    time.sleep(1.05)  # for so long, the failure is remembered
    assert source.token().value == endpoint.given[-1] != first.value


@pytest.mark.parametrize(
    ("status", "document", "refused", "why"),
    [
        (401, {"error": "invalid_client", "error_description": SECRET}, True, "HTTP 401: invalid_client. Check"),
        (400, {"error": f"<b>{SECRET}</b>"}, True, "HTTP 400. Check"),
        (302, {}, True, "HTTP 302"),
        (429, {}, False, "HTTP 429"),
        (500, {}, False, "HTTP 500"),
        (200, {}, True, "no usable access_token"),
        (200, {"access_token": "a\x01auth=Bearer b"}, True, "no usable access_token"),
        (200, {"access_token": ["a"]}, True, "no usable access_token"),
        (200, {"access_token": "a", "expires_in": 0}, False, "Check the clocks"),
    ],
)
def test_answers_that_are_none(
    endpoint: TokenEndpoint, status: int, document: dict[str, object], refused: bool, why: str
) -> None:
    endpoint.answer = status, json.dumps(document).encode()
    with pytest.raises(NoToken, match=why) as raised:
        source_of(
            {**endpoint.settings, "sasl.oauthbearer.token.endpoint.url": f"{endpoint.url}&b={id(document)}"}
        ).token()
    assert raised.value.refused is refused
    assert SECRET not in str(raised.value)
    assert "b=" not in str(raised.value)


@pytest.mark.parametrize("body", [b"", b"[" * 100_000, b"[]", b"null", b"\xff"])
def test_bodies_that_are_no_json_objects(endpoint: TokenEndpoint, body: bytes) -> None:
    endpoint.answer = 200, body
    with pytest.raises(NoToken, match="no usable access_token"):
        source_of({**endpoint.settings, "sasl.oauthbearer.token.endpoint.url": f"{endpoint.url}&c={id(body)}"}).token()


@pytest.mark.parametrize(
    ("expires_in", "claim", "expected_s"),
    [("600", 300, 300), (200, 300, 200), (None, 300, 300), (600, None, 600), (None, None, 300), (True, "x", 300)],
)
def test_how_long_a_token_is_good(
    endpoint: TokenEndpoint, expires_in: object, claim: object, expected_s: float
) -> None:
    ends = int(time.time()) + claim if isinstance(claim, int) else claim
    claims = base64.urlsafe_b64encode(json.dumps({"exp": ends}).encode()).decode().rstrip("=")
    endpoint.answer = 200, json.dumps({"access_token": f"e30.{claims}.c2ln", "expires_in": expires_in}).encode()
    source = source_of({**endpoint.settings, "sasl.oauthbearer.token.endpoint.url": f"{endpoint.url}&d={expected_s}"})
    assert source.token().expires_at == pytest.approx(time.time() + expected_s, abs=3)
