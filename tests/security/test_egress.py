"""Where a configuration may send a connector: the address that is connected to decides, and no answer is shown."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from ringfence.connectors.api import ConnectorError, RetriableError
from ringfence.connectors.builtin.kafka_source.cluster import source_settings, target_settings
from ringfence.connectors.converters.registry.json_schema import JsonSchemaConverter
from ringfence.connectors.sdk import worker_limits
from ringfence.connectors.sdk.egress import EgressDenied, Policy, parse_address
from ringfence.connectors.sdk.worker_limits import WorkerLimits
from ringfence.fencing.errors import Invalid
from ringfence.fencing.kafka.connection import Connection, connection_of

SECRET = "INTERNAL-METADATA-ROLE-CREDENTIALS"


@pytest.mark.parametrize(
    "policy,host,address,port,allowed",
    [
        ("public,private", "a.example.com", "93.184.215.14", 443, True),
        ("public,private", "a.example.com", "10.1.2.3", 9092, True),
        ("public,private", "localhost", "127.0.0.1", 80, False),
        ("public,private", "localhost", "::1", 80, False),
        ("public,private", "x", "::ffff:127.0.0.1", 80, False),
        ("loopback", "localhost", "127.0.0.1", 80, True),
        ("public,private,loopback,169.254.0.0/16", "metadata", "169.254.169.254", 80, False),
        ("public,private,metadata.internal", "metadata.internal", "fd00:ec2::254", 80, False),
        ("0.0.0.0/0", "x", "0.0.0.0", 80, False),
        ("10.0.0.0/8:443", "x", "10.0.0.1", 443, True),
        ("10.0.0.0/8:443", "x", "10.0.0.1", 80, False),
        ("kafka.example.com:9092-9094", "KAFKA.example.com.", "10.0.0.1", 9093, True),
        ("kafka.example.com:9092-9094", "kafka.example.com", "10.0.0.1", 9095, False),
        ("*.example.com", "a.b.example.com", "10.0.0.1", 1, True),
        ("*.example.com", "example.com.evil.org", "10.0.0.1", 1, False),
        ("[fd12::1]:8081", "x", "fd12::1", 8081, True),
        ("fd12::/16", "x", "fd12::1", 8081, True),
        ("", "a.example.com", "93.184.215.14", 443, False),
    ],
)
def test_what_the_list_means(policy: str, host: str, address: str, port: int, allowed: bool) -> None:
    assert Policy(policy).allows(host, parse_address(address), port) is allowed


@pytest.mark.parametrize("wrong", ["10.0.0.0/99", "a b", "http://x"])
def test_what_cannot_be_read_is_an_error(wrong: str) -> None:
    with pytest.raises(ValueError, match=r"egress\.allow"):
        Policy(wrong)


def test_one_address_that_is_not_allowed_is_enough() -> None:
    with pytest.raises(EgressDenied, match=r"rebinds\.example\.com:80 \(127\.0\.0\.1\)"):
        Policy("public").addresses("rebinds.example.com", 80, lambda *_: ["93.184.215.14", "127.0.0.1"])


@pytest.fixture
def inner() -> Iterator[tuple[str, list[str]]]:
    """A service that is nobody's business; what it was asked."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(self.path)
            if "elsewhere" in self.path:
                self.send_response(307)
                self.send_header("Location", "/latest/meta-data")
            else:
                self.send_response(404)
            self.end_headers()
            self.wfile.write(SECRET.encode())

        def do_GET(self) -> None:
            self.do_POST()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    server.server_close()


def ask(url: str) -> str:
    converter = JsonSchemaConverter()
    converter.configure({"schema.registry.url": url}, is_key=False)
    with pytest.raises((ConnectorError, RetriableError)) as raised:
        converter.from_record("t", {"a": "b"}["a"])
    chain, error = "", raised.value
    cause: BaseException | None = error
    while cause is not None:  # a trace shows causes, too
        chain += str(cause)
        cause = cause.__cause__
    return chain


def test_a_registry_on_a_closed_address_is_never_asked(
    inner: tuple[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, asked = inner
    monkeypatch.setattr(worker_limits, "_current", [WorkerLimits(egress="public,private")])
    assert "egress.allow" in ask(url)
    assert asked == []


def test_what_another_server_answers_is_not_shown_and_no_redirect_is_followed(
    inner: tuple[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, asked = inner
    monkeypatch.setattr(worker_limits, "_current", [WorkerLimits(egress="loopback")])
    told = ask(url)
    assert "HTTP 404" in told
    assert SECRET not in told
    assert asked
    asked.clear()
    assert SECRET not in ask(f"{url}/elsewhere")
    assert not [path for path in asked if "meta-data" in path]


def test_brokers_are_judged_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_limits, "_current", [WorkerLimits(egress="public,private")])
    from ringfence.connectors.sdk.kafka_settings.java_names import Role

    base = Connection("kafka:9092")
    with pytest.raises(Invalid, match=r"127\.0\.0\.1:2181 are not allowed"):
        connection_of(Role.PRODUCER, base, {}, {"producer.override.bootstrap.servers": "127.0.0.1:2181"})
    home = connection_of(Role.PRODUCER, Connection("127.0.0.1:9092"), {}, {})  # the worker's own needs no permission
    assert home.bootstrap == "127.0.0.1:9092"


@pytest.mark.parametrize("allowed", [False, True])
def test_a_token_issuer_is_judged_like_a_registry(
    inner: tuple[str, list[str]], monkeypatch: pytest.MonkeyPatch, allowed: bool
) -> None:
    """Only the issuer is on this machine: the token comes before the registry is asked at all."""
    url, asked = inner
    policy = "public,private,loopback" if allowed else "public,private"
    monkeypatch.setattr(worker_limits, "_current", [WorkerLimits(egress=policy)])
    converter = JsonSchemaConverter()
    settings = {
        "schema.registry.url": "http://192.0.2.1:8081",
        "bearer.auth.credentials.source": "OAUTHBEARER",
        "bearer.auth.issuer.endpoint.url": f"{url}/token",
        "bearer.auth.client.id": "me",
        "bearer.auth.client.secret": "hunter22",
        "bearer.auth.scope": "all",
        "bearer.auth.logical.cluster": "lsrc-1",
        "bearer.auth.identity.pool.id": "pool-1",
    }
    converter.configure(settings, is_key=False)
    with pytest.raises((ConnectorError, RetriableError)) as raised:
        converter.from_record("t", {"a": "b"}["a"])
    chain, cause = "", raised.value.__cause__
    while cause is not None:
        chain, cause = chain + str(cause), cause.__cause__
    told = f"{raised.value}{chain}"
    assert bool(asked) is allowed
    assert ("egress.allow" in told) is not allowed
    assert SECRET not in told
    assert "hunter22" not in told


@pytest.mark.parametrize("side", ["source", "target"])
def test_both_clusters_of_a_copy_are_judged(monkeypatch: pytest.MonkeyPatch, side: str) -> None:
    limits = WorkerLimits(egress="public,private", home="kafka-1:9092,127.0.0.1:9092")
    monkeypatch.setattr(worker_limits, "_current", [limits])
    settings = source_settings if side == "source" else target_settings
    key = f"{side}.cluster.bootstrap.servers"
    for closed in ("127.0.0.1:22", "169.254.169.254:80"):
        assert "not allowed by the worker's egress.allow" in settings({key: closed}).errors[key]
    assert settings({key: "10.0.0.1:9092"}).errors == {}
    home = settings({key: "127.0.0.1:9092,kafka-1:9092"}).errors
    assert bool(home) is (side == "source"), "the worker's own Kafka needs no entry as a target"
