"""Logins with SASL OAUTHBEARER: a broker that checks each token's signature, and all kinds of clients."""

import logging
import time
from collections.abc import Callable, Iterator

import pytest

from ringfence.connectors.api import ConnectorError
from ringfence.connectors.sdk import worker_limits
from ringfence.connectors.sdk.worker_limits import WorkerLimits
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Fatal
from ringfence.fencing.fetching.partition_reader import PartitionReader
from ringfence.fencing.kafka.client_pool import login_refused
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.kafka_python_client import PythonClient
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.fencing.transactions.producer import Producer
from ringfence.local.kafka import EmbeddedKafka
from ringfence.local.ports import free_ports
from tests.support.encoded import read_numbers
from tests.support.fetched import run_of
from tests.support.token_endpoint import SECRET, TokenEndpoint, token_endpoint

pytestmark = pytest.mark.broker

_PACKAGE = "org.apache.kafka.common.security.oauthbearer"
_LOGIN_S = 3.0


@pytest.fixture(scope="module")
def endpoint() -> Iterator[TokenEndpoint]:
    with token_endpoint() as started:
        yield started


@pytest.fixture(scope="module")
def cluster(endpoint: TokenEndpoint, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The addresses of a broker whose logins are good for some seconds."""
    root = tmp_path_factory.mktemp("tokens")
    port, hidden, controller = free_ports(3)
    kafka = EmbeddedKafka(
        root / "kafka",
        port,
        root / "log",
        short_lived=True,
        properties={
            "listeners": f"CLIENT://127.0.0.1:{port},IN://127.0.0.1:{hidden},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"CLIENT://127.0.0.1:{port},IN://127.0.0.1:{hidden}",
            "listener.security.protocol.map": "CLIENT:SASL_PLAINTEXT,IN:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "IN",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "connections.max.reauth.ms": str(int(_LOGIN_S * 1000)),
            "listener.name.client.sasl.enabled.mechanisms": "OAUTHBEARER",
            "listener.name.client.oauthbearer.sasl.jaas.config": f"{_PACKAGE}.OAuthBearerLoginModule required;",
            "listener.name.client.oauthbearer.sasl.server.callback.handler.class": (
                f"{_PACKAGE}.OAuthBearerValidatorCallbackHandler"
            ),
            "sasl.oauthbearer.jwks.endpoint.url": endpoint.keys_url,
            "sasl.oauthbearer.expected.audience": "kafka",
            "sasl.oauthbearer.expected.issuer": "us",
            "sasl.oauthbearer.clock.skew.seconds": "0",
        },
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_TOOL_OPTIONS", f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={endpoint.keys_url}")
        kafka.start()
    try:
        yield kafka.bootstrap
    finally:
        kafka.kill()


@pytest.fixture(autouse=True)
def reachable(monkeypatch: pytest.MonkeyPatch, endpoint: TokenEndpoint) -> None:
    monkeypatch.setattr(worker_limits, "_current", [WorkerLimits(egress="public,private,loopback")])
    endpoint.answer, endpoint.lifetime_s = None, 3600.0


def test_all_clients_log_in_and_go_on_when_logins_and_tokens_expire(
    endpoint: TokenEndpoint, cluster: str, unique: Callable[[str], str]
) -> None:
    """Tokens are good for two logins, and while the first one expires the endpoint answers nothing useful."""
    endpoint.lifetime_s = 2 * _LOGIN_S
    # Another spelling of the same address is a login of its own, with tokens of its own.
    settings = {**endpoint.settings, "sasl.oauthbearer.token.endpoint.url": f"{endpoint.url}&test=expiry"}
    good, topic = Connection(cluster, settings), unique("t")
    create_topics(good, [TopicSpec(topic)], Deadline.after(30))
    python = PythonClient(**good.kafka_python())
    producer = Producer(good, unique("login"))
    producer.init(Deadline.after(30))
    there = {**settings, "bootstrap.servers": cluster}
    reader = PartitionReader(there, "read_committed", 2**31, lambda host, _: [host])
    reader.add({(topic, 0): 0})
    values: list[bytes | None] = []
    begun = time.monotonic()
    endpoint.away = begun + _LOGIN_S, begun + 1.8 * _LOGIN_S
    written = 0
    while time.monotonic() - begun < 4 * _LOGIN_S:
        producer.begin()
        producer.produce(topic, b"%d" % written)
        producer.commit(Deadline.after(30))
        written += 1
        for batch in reader.poll(0.1):
            values += run_of(batch).values
    assert read_numbers(good, topic, 1)[0] == list(range(written))
    while len(values) < written:
        for batch in reader.poll(30):
            values += run_of(batch).values
    reader.close()
    assert values == [b"%d" % number for number in range(written)]
    assert topic in python.list_topics()
    python.close()
    producer.close()
    tokens = len(endpoint.given)
    assert 3 <= tokens <= 12, "one token for each of its lifetimes, for all clients together"


def test_a_wrong_secret_is_an_error_that_shows_none(
    endpoint: TokenEndpoint, cluster: str, caplog: pytest.LogCaptureFixture, unique: Callable[[str], str]
) -> None:
    wrong = {**endpoint.settings, "sasl.oauthbearer.client.secret": "wr0ng-s3cret"}
    bad = Producer(Connection(cluster, wrong), unique("bad"))
    with caplog.at_level(logging.DEBUG), pytest.raises(Fatal, match="HTTP 401: invalid_client") as raised:
        bad.init(Deadline.after(30))
    bad.close()
    reader = PartitionReader({**wrong, "bootstrap.servers": cluster}, "read_committed", 1, lambda host, _: [host])
    reader.add({("t", 0): 0})
    with pytest.raises(ConnectorError, match="HTTP 401: invalid_client"):
        reader.poll(30)
    reader.close()
    assert login_refused(Connection(cluster, wrong), seconds=20)
    told = caplog.text + str(raised.value) + repr(raised.value.__cause__)
    assert "wr0ng-s3cret" not in told
    assert "Basic" not in told


def test_a_token_that_the_broker_refuses_is_not_used_again(
    endpoint: TokenEndpoint, cluster: str, unique: Callable[[str], str]
) -> None:
    settings = {**endpoint.settings, "sasl.oauthbearer.token.endpoint.url": f"{endpoint.url}&test=refused"}
    endpoint.answer = 200, b'{"access_token": "bm90.YQ.dG9rZW4", "expires_in": 3600}'
    with pytest.raises(Fatal, match=r"login at .* was refused") as raised:
        Producer(Connection(cluster, settings), unique("refused")).init(Deadline.after(30))
    assert "bm90" not in str(raised.value)
    endpoint.answer = None
    producer = Producer(Connection(cluster, settings), unique("refused"))
    producer.init(Deadline.after(30))
    producer.close()


def test_an_endpoint_that_may_not_be_asked_is_not_asked(
    endpoint: TokenEndpoint, cluster: str, monkeypatch: pytest.MonkeyPatch, unique: Callable[[str], str]
) -> None:
    monkeypatch.setattr(worker_limits, "_current", [WorkerLimits(egress="public,private")])
    before = len(endpoint.given)
    closed = Connection(cluster, endpoint.settings)
    with pytest.raises(Fatal, match=r"not allowed by the worker's egress\.allow"):
        Producer(closed, unique("closed")).init(Deadline.after(30))
    assert login_refused(closed, seconds=20), "librdkafka has no way of its own to the endpoint"
    assert len(endpoint.given) == before
    assert SECRET not in repr(closed)
