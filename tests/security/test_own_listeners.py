"""No configuration reaches the platform's own listeners, whatever `egress.allow` says.

The listener here belongs to this process, which is the platform's by its environment's mark. Each connector, converter
with a registry, alert and identity provider is sent there, and nothing may arrive.
"""

import ast
import importlib.metadata
import ipaddress
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from django.test import override_settings
from kafka.errors import KafkaError
from kafka.net.inet import KafkaNetSocket

from ringfence.access.oidc.provider import Connection as ProviderConnection
from ringfence.access.oidc.settings import Unavailable
from ringfence.alerts import senders
from ringfence.alerts.senders import URL, Endpoint, NotSent
from ringfence.alerts.ssrf_guard import AddressDenied, AllowedNetworks, target
from ringfence.connectors.api import ConnectorError, SourceConnector, Struct
from ringfence.connectors.api.schemas import STRING, struct
from ringfence.connectors.builtin.files.places import PLACES, s3
from ringfence.connectors.builtin.kafka_source.cluster import target_settings
from ringfence.connectors.builtin.sql import database
from ringfence.connectors.converters.registry import avro, json_schema, protobuf, registry_converter
from ringfence.connectors.converters.registry.reading import SchemaReader
from ringfence.connectors.converters.registry.settings import registry_settings
from ringfence.connectors.process_tree import MARK
from ringfence.connectors.sdk import own_listeners, worker_limits
from ringfence.connectors.sdk.egress import EgressDenied, Policy
from ringfence.connectors.sdk.kafka_settings import java_names, oauth_tokens
from ringfence.connectors.sdk.kafka_settings.java_names import Role
from ringfence.connectors.sdk.worker_limits import WorkerLimits
from ringfence.engine.spark.connector_limits import limits_of
from ringfence.fencing.errors import Invalid
from ringfence.fencing.kafka.connection import Connection, connection_of
from ringfence.fencing.kafka.kafka_python_client import PythonClient
from ringfence.platform_addresses import find_own_listeners
from ringfence.worker_config import WorkerConfig
from tests.connectors.fakes import FakeContext
from tests.support.trap import Trap
from tests.support.waiting import eventually

EVERYTHING: Final = "public,private,loopback,localhost,0.0.0.0/0,::/0"
REFUSED: Final = "are never allowed"


@pytest.fixture
def trap(monkeypatch: pytest.MonkeyPatch) -> Iterator[Trap]:
    monkeypatch.setenv(MARK, str(os.getpid()))
    before = worker_limits.current()
    worker_limits.declare(WorkerLimits(egress=EVERYTHING))
    made = Trap()
    yield made
    made.close()
    worker_limits.declare(before)


_HOST_KEY: Final = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"
_FILES: Final = {"topic": "t", "format": "csv"}
_COPY: Final = {"source.cluster.alias": "a", "topics": "t"}
_SHARE: Final = {"share.group": "g", "topics": "t", "topic": "o"}
TARGET: Final = "target.cluster.bootstrap.servers"
"""Of a copy; it has a test of its own."""
CLOSED: Final = "127.0.0.1:1"
"""Where nobody listens."""


def _tokens(prefix: str) -> dict[str, str]:
    """A login by tokens, whose endpoint is the address."""
    login = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        oauth_tokens.ENDPOINT: "http://HOST/token?to=connectors",
        oauth_tokens.CLIENT_ID: "me",
        oauth_tokens.CLIENT_SECRET: "of-the-tenant",
    }
    return {f"{prefix}{name}": value for name, value in login.items()}


ATTEMPTS: Final[dict[str, list[dict[str, str]]]] = {
    "DltSource": [
        {
            "rest.config": '{"client": {"base_url": "http://HOST/"}, "resources": ["connectors"]}',
            "topic.prefix": "t.",
        },
        {"rest.url": "http://HOST/connectors", "topic.prefix": "t."},
    ],
    "SqlSource": [
        {"connection.url": f"jdbc:{kind}://HOST/d", "connection.user": "u", "mode": "xmin", "topic.prefix": "t."}
        for kind in ("postgresql", "mysql", "mariadb")
    ],
    "PostgresSource": [
        {
            "database.hostname": "ADDRESS",
            "database.port": "PORT",
            "database.user": "u",
            "database.password": "p",
            "database.dbname": "d",
            "topic.prefix": "t",
        }
    ],
    "KafkaSource": [
        {**_COPY, "source.cluster.bootstrap.servers": "HOST"},
        {**_COPY, "source.cluster.bootstrap.servers": CLOSED, **_tokens("source.cluster.")},
    ],
    "ShareGroupSource": [
        {**_SHARE, "source.cluster.bootstrap.servers": "HOST"},
        {**_SHARE, "source.cluster.bootstrap.servers": CLOSED, **_tokens("source.cluster.")},
    ],
    "FilesSource": [
        {**_FILES, "url": "s3://bucket/in", "s3.endpoint.url": "http://HOST"},
        {**_FILES, "url": "sftp://HOST/in", "sftp.user": "u", "sftp.password": "p", "sftp.host.key": _HOST_KEY},
        {**_FILES, "url": "gs://bucket/in", "gcs.endpoint.url": "http://HOST"},
        {**_FILES, "url": "abfs://container@account", "azure.endpoint.url": "http://HOST/account"},
    ],
    "SparkTableSource": [
        {"url": "jdbc:postgresql://HOST/d", "dbtable": "t", "user": "u", "topic": "t"},
        {"url": "s3://bucket/in", "s3.endpoint.url": "http://HOST", "topic": "t"},
    ],
}
"""What each connector is configured with to be sent there: HOST is the address with its port."""
REACHES_NOTHING: Final = {
    "FileStreamSource": "reads a file",
    "VerifiableSource": "makes its records up",
    "WebhookSource": "is connected to",
    "PySparkSource": "runs a data source of a package, a plugin's code",
}


def connector_of(name: str) -> type[SourceConnector]:
    (entry,) = importlib.metadata.entry_points(group="ringfence.connectors", name=name)
    return entry.load()  # type: ignore[no-any-return]


def test_every_connector_is_tried() -> None:
    """A new connector is to be tried here, or to reach nothing."""
    ours = {
        entry.name
        for entry in importlib.metadata.entry_points(group="ringfence.connectors")
        if entry.value.startswith("ringfence.connectors.builtin.")
    }
    assert ours == ATTEMPTS.keys() | REACHES_NOTHING.keys()


_ADDRESS: Final = re.compile(r"\bur[il]|endpoint|server|host|address|issuer|proxy|\bport\b")
_NO_ADDRESS: Final = frozenset({"sftp.host.key", "ssl.endpoint.identification.algorithm", oauth_tokens.URL_ENCODE})


@pytest.mark.parametrize("name", [*ATTEMPTS, *REACHES_NOTHING])
def test_every_setting_with_an_address_is_tried(name: str) -> None:
    """A new one is to be tried here."""
    named = {key for key in connector_of(name).config_def().keys if _ADDRESS.search(key)} - _NO_ADDRESS
    if name == "SparkTableSource":  # its files are those of FilesSource
        named -= connector_of("FilesSource").config_def().keys.keys()
    assert named - {TARGET} <= {key for config in ATTEMPTS.get(name, []) for key in config}


def test_every_kind_of_address_is_tried() -> None:
    tried = {config["url"].partition("://")[0] for config in ATTEMPTS["FilesSource"]}
    assert tried == PLACES.keys() - {"file"}
    databases = {config["connection.url"].split(":")[1] for config in ATTEMPTS["SqlSource"]}
    assert databases == database._DRIVERS.keys()


def fill(config: Mapping[str, str], address: str, port: int) -> dict[str, str]:
    literal = f"[{address}]" if ":" in address else address
    return {
        key: value.replace("HOST", f"{literal}:{port}").replace("ADDRESS", address).replace("PORT", str(port))
        for key, value in config.items()
    }


class Context(FakeContext):
    """What connectors ask theirs for, too."""

    trial = False

    def why_closed(self, topic: str) -> str:
        return ""

    def warn(self, text: str) -> None:
        pass


def try_out(what: Any, said: list[str]) -> Any:
    """Call it, and note what is said, causes included."""
    try:
        result = what()
    except Exception as error:
        cause: BaseException | None = error
        while cause is not None:
            said.append(str(cause))
            cause = cause.__cause__ or cause.__context__
        return None
    said.append(repr(result))
    return result


def use(connector_class: type[SourceConnector], config: dict[str, str]) -> str:
    """Validate, choose, start and poll, as far as each goes. Returns all that was said."""
    said: list[str] = []
    connector = connector_class()
    connector.context = Context()  # type: ignore[assignment]
    try_out(lambda: connector.validate(config), said)
    try_out(lambda: connector.list_choices(config), said)
    try_out(lambda: connector.start(config), said)
    for task_config in try_out(lambda: connector.task_configs(1), said) or [config]:
        task = connector_class.task_class()()
        task.context = Context()
        try_out(lambda task=task, own=task_config: task.start({**config, **own}), said)
        try_out(task.poll, said)
        try_out(task.stop, said)
    try_out(connector.stop, said)
    return " ".join(said)


CASES: Final = [(name, number) for name, configs in ATTEMPTS.items() for number in range(len(configs))]


@pytest.mark.parametrize(("name", "number"), CASES)
def test_a_connector_does_not_reach_it(trap: Trap, name: str, number: int) -> None:
    said = use(connector_of(name), fill(ATTEMPTS[name][number], "127.0.0.1", trap.port))
    assert REFUSED in said, said
    assert trap.callers == []


@pytest.mark.parametrize("side", list(Role))
def test_a_connectors_kafka_clients_do_not(trap: Trap, side: Role) -> None:
    config = {f"{role}.override.bootstrap.servers": f"localhost:{trap.port}" for role in Role}
    with pytest.raises(Invalid, match=REFUSED):
        connection_of(side, Connection("kafka:9092"), {}, config)
    assert trap.callers == []


@pytest.mark.parametrize("side", list(Role))
def test_a_connectors_token_endpoint_does_not(trap: Trap, side: Role) -> None:
    """Neither at validation, nor where the address of a name has changed since."""
    login = fill(_tokens(""), "localhost", trap.port)
    overrides = {f"{role}.override.{key}": value for role in Role for key, value in login.items()}
    with pytest.raises(Invalid, match=REFUSED):
        connection_of(side, Connection("kafka:9092"), {}, overrides)
    with pytest.raises(oauth_tokens.NoToken, match=REFUSED):
        oauth_tokens.source_of(login).token()
    assert trap.callers == []


def test_every_setting_of_a_kafka_client_with_an_address_is_tried() -> None:
    named = {key for key in java_names.RULES if _ADDRESS.search(key)} - _NO_ADDRESS
    assert named == {java_names.BOOTSTRAP, oauth_tokens.ENDPOINT}


@pytest.mark.parametrize("converter", [avro.AvroConverter, json_schema.JsonSchemaConverter, protobuf.ProtobufConverter])
def test_a_registry_does_not(trap: Trap, converter: type[registry_converter.RegistryConverter]) -> None:
    made = converter()
    made.configure({"schema.registry.url": f"http://localhost:{trap.port}/connectors"}, is_key=False)
    schema = struct({"a": STRING}, "r")
    with pytest.raises(Exception, match=REFUSED):
        made.from_record("t", Struct(schema, {"a": "b"}), schema)
    assert trap.callers == []


ISSUER: Final = {
    "schema.registry.url": "http://192.0.2.1:8081",
    "bearer.auth.credentials.source": "OAUTHBEARER",
    "bearer.auth.client.id": "me",
    "bearer.auth.client.secret": "of-the-tenant",
    "bearer.auth.scope": "all",
    "bearer.auth.logical.cluster": "lsrc-1",
    "bearer.auth.identity.pool.id": "pool-1",
}


def test_the_issuer_of_a_registrys_tokens_does_not(trap: Trap) -> None:
    """Only the issuer is asked: the token comes before the registry."""
    settings = {**ISSUER, "bearer.auth.issuer.endpoint.url": f"http://localhost:{trap.port}/connectors?x="}
    made = json_schema.JsonSchemaConverter()
    made.configure(settings, is_key=False)
    schema = struct({"a": STRING}, "r")
    said: list[str] = []
    try_out(lambda: made.from_record("t", Struct(schema, {"a": "b"}), schema), said)
    assert REFUSED in " ".join(said), said
    with pytest.raises(ConnectorError, match="No token"):
        SchemaReader(settings).read(b"\0\0\0\0\1{}")
    assert trap.callers == []


def test_every_setting_of_a_registry_with_an_address_is_tried() -> None:
    named = {key for key in registry_settings().keys if _ADDRESS.search(key)}
    assert named == {"schema.registry.url", "bearer.auth.issuer.endpoint.url"}


def test_the_other_cluster_of_a_copy_does_not(trap: Trap) -> None:
    assert REFUSED in target_settings({TARGET: f"localhost:{trap.port}"}).errors[TARGET]
    errors = target_settings(fill({TARGET: CLOSED, **_tokens("target.cluster.")}, "localhost", trap.port)).errors
    assert REFUSED in " ".join(errors.values())
    assert trap.callers == []


def test_every_converter_with_a_registry_is_tried() -> None:
    tried = {avro.AvroConverter, json_schema.JsonSchemaConverter, protobuf.ProtobufConverter}
    assert set(registry_converter.RegistryConverter.__subclasses__()) == tried


@pytest.mark.parametrize("mark", ["?", "#", "?x=", "#x"])
def test_a_registrys_address_has_no_query_and_no_fragment(mark: str) -> None:
    made = json_schema.JsonSchemaConverter()
    with pytest.raises(Exception, match="has no query and no fragment; remove what begins"):
        made.configure({"schema.registry.url": f"http://127.0.0.1:8083/connectors/victim/restart{mark}"}, is_key=False)


def test_a_registry_that_a_reader_names_does_not(trap: Trap) -> None:
    reader = SchemaReader({"schema.registry.url": f"http://[::1]:{trap.port}"})
    with pytest.raises(ConnectorError, match=REFUSED):
        reader.read(b"\0\0\0\0\1{}")
    assert trap.callers == []


def test_an_alert_does_not(trap: Trap) -> None:
    with pytest.raises(AddressDenied, match="a part of this platform"):
        target(f"http://localhost:{trap.port}/x", AllowedNetworks(private=True, loopback=True))
    assert trap.callers == []


@pytest.mark.parametrize("kind", [kind for kind, channel in senders.CHANNELS.items() if URL in channel.fields])
@pytest.mark.parametrize("what", ["firing", "resolved", "test"])
def test_no_destination_of_alerts_does(trap: Trap, kind: str, what: str) -> None:
    message = {"what": what, "summary": "s", "incident": 1}
    with (
        override_settings(ALERTS_LOOPBACK=True, ALERTS_PRIVATE=True),
        pytest.raises(NotSent, match="part of this platf"),
    ):
        senders.send(Endpoint(kind, f"http://localhost:{trap.port}/x", "a-key-of-16-letters"), message, 1)
    assert trap.callers == []


def test_every_destination_of_alerts_is_tried_or_has_no_address() -> None:
    """Mail goes to the server of a setting of the workers."""
    assert {kind for kind, channel in senders.CHANNELS.items() if URL not in channel.fields} == {"mail"}


def test_an_identity_provider_does_not(trap: Trap) -> None:
    connection = ProviderConnection(Policy(EVERYTHING))
    with pytest.raises(Unavailable, match=REFUSED):
        connection.get(f"http://localhost:{trap.port}/.well-known/openid-configuration")
    connection.close()
    assert trap.callers == []


_CLIENTS: Final = """
aiobotocore aiohttp asyncpg asyncssh azure boto3 botocore ftplib google grpc http.client httpx imaplib kubernetes
paramiko poplib psycopg psycopg2 pymysql requests s3fs smtplib sqlalchemy telnetlib urllib.request urllib3 websockets
"""
CLIENTS: Final = frozenset(_CLIENTS.split())
"""Libraries that open connections. Those for Kafka and Redis are left out: their addresses are settings, or checked by
`connection_of`.
"""
OPENING: Final = frozenset({"create_connection", "open_connection", "connect_ex"})
DOORS: Final = {
    "connectors/sdk/guarded_httpx.py": "guards clients of registries and issuers: test_a_registry_does_not",
    "connectors/sdk/guarded_requests.py": "guards DltSource, GCS and Azure: test_a_connector_does_not_reach_it",
    "connectors/sdk/kafka_settings/oauth_tokens.py": "test_a_connectors_token_endpoint_does_not",
    "fencing/transactions/broker_connection.py": "test_a_connectors_kafka_clients_do_not, and each broker's address",
    "platform/ringfence/access/oidc/provider.py": "test_an_identity_provider_does_not",
    "platform/ringfence/alerts/senders.py": "test_no_destination_of_alerts_does",
    "platform/ringfence/client/rest.py": "the client of a person at a terminal, or of CI: no process of the platform",
    "platform/ringfence/commands/up.py": "its own web process, at its own address",
    "platform/ringfence/demo/job.py": "the demo's own platform",
    "platform/ringfence/local/java_host.py": "Maven's mirror, a setting of the person at the terminal",
    "platform/ringfence/local/ports.py": "looks whether a port of its own is open",
    "platform/ringfence/web/hooks/link.py": "a listening task, whose secret both sides prove",
}
"""Each module outside of built-in connectors that opens connections with such a library, and what is tried."""


def _imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


def _opens(path: Path) -> bool:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = set(_imports(tree))
    calls = {
        node.func.attr for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    }
    return bool(calls & OPENING or names & CLIENTS or {name.split(".")[0] for name in names} & CLIENTS)


def test_every_module_that_opens_connections_is_known() -> None:
    """A new one needs a guard, and an attempt here. Built-in connectors are found by their entry points."""
    root = Path(__file__).parents[2]
    files = [*(root / "connectors").rglob("*.py"), *(root / "fencing").rglob("*.py")]
    files += [
        Path(folder) / name
        for folder, _, names in os.walk(root / "platform" / "ringfence")  # which follows no links
        for name in names
        if name.endswith(".py")
    ]
    paths = {file.relative_to(root).as_posix() for file in files if _opens(file)}
    assert {path for path in paths if not path.startswith("connectors/builtin/")} == DOORS.keys()


def addresses_of_this_machine() -> list[str]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
        way.connect(("192.0.2.1", 9))  # sends nothing
        own = str(way.getsockname()[0])
    return ["127.0.0.1", "127.5.5.5", "::1", "::ffff:127.0.0.1", "localhost", "LOCALHOST", "2130706433", "0x7f.1", own]


@pytest.mark.parametrize("host", addresses_of_this_machine())
def test_no_name_of_this_machine_helps(trap: Trap, host: str) -> None:
    with pytest.raises(EgressDenied, match=REFUSED):
        Policy(EVERYTHING).addresses(host, trap.port)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "0", "::ffff:0.0.0.0"])
def test_the_unspecified_address_is_nowhere(trap: Trap, host: str) -> None:
    with pytest.raises(EgressDenied):
        Policy(EVERYTHING).addresses(host, trap.port)


def test_a_name_that_changes_its_address_is_judged_where_it_leads(trap: Trap) -> None:
    answers = iter([["127.0.0.9"], ["93.184.215.14", "127.0.0.1"]])
    policy = Policy(f"public,rebinds.example.com:{trap.port}")
    for _ in range(2):
        with pytest.raises(EgressDenied, match=REFUSED):
            policy.addresses("rebinds.example.com", trap.port, lambda *_: next(answers))


@pytest.mark.parametrize("leads", [["127.0.0.1"], ["10.1.2.3"]])
def test_kafka_python_connects_to_what_was_checked(
    trap: Trap, monkeypatch: pytest.MonkeyPatch, leads: list[str]
) -> None:
    """A name that leads to a public address when it is checked, and to a closed listener after that."""
    worker_limits.declare(WorkerLimits(egress="public,loopback"))
    asked: list[str] = []
    connected: list[object] = []
    real = socket.getaddrinfo

    def rebind(host: Any, *rest: Any, **more: Any) -> Any:
        if host != "rebinds.example.com":
            return real(host, *rest, **more)
        asked.append(host)
        return [each for address in (["93.184.215.14"] if len(asked) == 1 else leads) for each in real(address, *rest)]

    def connect(_: object, to: socket.socket, address: Any) -> int:
        connected.append(address)
        return to.connect_ex(address)

    monkeypatch.setattr(socket, "getaddrinfo", rebind)
    monkeypatch.setattr(KafkaNetSocket, "connect_ex", connect)
    config = {java_names.BOOTSTRAP: f"rebinds.example.com:{trap.port}"}
    there = connection_of(
        Role.ADMIN, Connection("127.0.0.1:1"), {}, {f"producer.override.{k}": v for k, v in config.items()}
    )
    with pytest.raises(KafkaError):
        PythonClient(**there.kafka_python(), bootstrap_timeout_ms=1_000).close()
    assert len(asked) > 1
    assert connected == []
    assert trap.callers == []


def test_kafka_python_reaches_what_is_allowed(trap: Trap, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the test before shows something."""
    monkeypatch.setenv(MARK, "0")
    monkeypatch.setattr(own_listeners, "_verdicts", {})
    there = Connection(f"localhost:{trap.port}", guarded=True)
    with pytest.raises(KafkaError):
        PythonClient(**there.kafka_python(), bootstrap_timeout_ms=1_000).close()
    assert trap.callers


def test_a_listener_of_somebody_else_stays_reachable(trap: Trap, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MARK, "0")  # nothing here is the platform's
    monkeypatch.setattr(own_listeners, "_verdicts", {})
    assert Policy("loopback").addresses("127.0.0.1", trap.port) == ["127.0.0.1"]


def test_the_workers_broker_stays_reachable(trap: Trap) -> None:
    worker_limits.declare(WorkerLimits(egress=EVERYTHING, home=f"127.0.0.1:{trap.port}"))
    assert "127.0.0.1" in Policy(EVERYTHING).addresses("localhost", trap.port)[-1]


def test_a_broker_without_a_port_opens_nothing(trap: Trap) -> None:
    worker_limits.declare(WorkerLimits(egress=EVERYTHING, home="127.0.0.1"))
    with pytest.raises(EgressDenied, match=REFUSED):
        Policy(EVERYTHING).addresses("127.0.0.1", trap.port)


CHILD: Final = """
import os, socket, sys, time
for step in sys.argv[1:]:
    if step == "fork" and os.fork():
        os._exit(0)
    if step == "session":
        os.setsid()
    if step == "clean":
        os.execve(sys.executable, [sys.executable, __file__], {})
listening = socket.create_server(("127.0.0.1", 0))
print(listening.getsockname()[1], os.getpid(), flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("steps", [[], ["clean"], ["session", "fork"], ["fork", "session", "fork"]], ids=str)
def test_whoever_started_in_the_tree_is_the_platforms(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any, steps: list[str]
) -> None:
    """Also a process that nobody is the parent of any more, by the mark."""
    monkeypatch.setenv(MARK, str(os.getpid()))
    script = tmp_path / "child.py"
    script.write_text(CHILD)
    with subprocess.Popen(
        [sys.executable, str(script), *steps], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdin is not None
        port = int(child.stdout.readline().split()[0])
        assert own_listeners.is_own(ipaddress.ip_address("127.0.0.1"), port)
        child.stdin.close()
        eventually(lambda: child.poll() is not None, 30, lambda: "the end of the child")


def test_what_the_settings_name_is_closed_although_nobody_listens() -> None:
    found = find_own_listeners(
        {
            "spark.master": "spark://master-1:7077,192.0.2.7:7077",
            "spark.driver.host": "192.0.2.8",
            "spark.driver.port": "7078",
            "egress.deny": "192.0.2.64/28, web.example.com:8083",
        },
        {
            "RINGFENCE_REDIS_URL": "rediss://u:p@[fd00::5]:6380/0;sentinel://192.0.2.10/0",
            "RINGFENCE_HTTP": "192.0.2.9:8083",
        },
    )
    own_listeners.declare(found, ["192.0.2.65:9092"])
    try:
        for closed in (
            "fd00::5 6380",
            "192.0.2.10 26379",
            "192.0.2.9 8083",
            "192.0.2.7 7077",
            "192.0.2.7 6066",
            "192.0.2.7 8080",
        ):
            address, port = closed.split()
            assert own_listeners.is_own(ipaddress.ip_address(address), int(port)), closed
        for closed in ("192.0.2.8 7078", "192.0.2.66 1", "::ffff:192.0.2.66 65535"):
            address, port = closed.split()
            assert own_listeners.is_own(ipaddress.ip_address(address), int(port)), closed
        for open_one in ("192.0.2.9 8084", "192.0.2.7 22", "192.0.2.65 9092", "192.0.2.80 1"):
            address, port = open_one.split()
            assert not own_listeners.is_own(ipaddress.ip_address(address), int(port)), open_one
    finally:
        own_listeners.declare((), ())


def test_a_name_is_closed_where_it_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [(2, 1, 6, "", ("10.9.8.7", 0)), (10, 1, 6, "", ("fd00::7", 0))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: answers)
    own_listeners.declare(["web:8083"], ())
    try:
        assert own_listeners.is_own(ipaddress.ip_address("10.9.8.7"), 8083)
        assert own_listeners.is_own(ipaddress.ip_address("fd00::7"), 8083)
        assert not own_listeners.is_own(ipaddress.ip_address("10.9.8.7"), 8084)
    finally:
        own_listeners.declare((), ())


@pytest.mark.parametrize("wrong", ["http://x", "a b", "10.0.0.0/99:x", "*.example.com"])
def test_an_entry_that_cannot_be_read_stops_the_worker(wrong: str) -> None:
    with pytest.raises(Invalid, match=r"egress\.deny"):
        WorkerConfig.from_environment({"CONNECT_EGRESS_DENY": wrong})


def test_the_workers_settings_reach_its_connectors() -> None:
    config = WorkerConfig.from_environment({"CONNECT_EGRESS_DENY": "192.0.2.1", "CONNECT_LISTEN_HOST": "auto"})
    limits = limits_of(config, "c", {"RINGFENCE_REDIS_URL": "redis://192.0.2.2"})
    passed = worker_limits.of_settings(limits.as_settings())
    assert passed.own_listeners == ("192.0.2.2:6379", "192.0.2.1")
    assert passed.listen_host == "auto", "tasks listen where the worker's setting says"


def test_an_address_that_no_resolver_sees_is_judged(trap: Trap) -> None:
    """aiohttp asks its resolver about names only, and a server may name an address."""
    open_socket = s3._socket_factory(Policy("loopback"), {"192.0.2.77"})
    for closed in (("127.0.0.1", trap.port), ("169.254.169.254", 80), ("192.0.2.78", 80)):
        with pytest.raises(OSError, match="allowed"):
            open_socket((socket.AF_INET, socket.SOCK_STREAM, 0, "", closed))
    open_socket((socket.AF_INET, socket.SOCK_STREAM, 0, "", ("192.0.2.77", 80))).close()  # judged with its name
