"""No other user of the machine reads or writes the Kafka of `ringfence up`: by no port, file, or command line."""

import base64
import json
import os
import shlex
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from ringfence.consumer_commands import consumer_commands
from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.client_pool import login_refused
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.topics.topic_log import TopicLog
from ringfence.local.data_directory import DataDirectory
from ringfence.local.jars import KAFKA_SERVER, resolve
from ringfence.local.java import find_java
from ringfence.local.kafka import EmbeddedKafka
from ringfence.local.kafka_login import MECHANISM, USER, KafkaLogin
from ringfence.local.ports import free_port

pytestmark = pytest.mark.broker

CONFIGS = "connect-configs"
PASSWORD = "the-password-of-the-test"
STRANGER = """
import socket, sys
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
port, how = sys.argv[1:]
where = {"bootstrap.servers": f"127.0.0.1:{port}", "log_level": 0}
if how == "read":
    reader = Consumer({**where, "group.id": "none", "auto.offset.reset": "earliest"})
    reader.assign([TopicPartition("connect-configs", 0, 0)])
    for message in reader.consume(10, timeout=8):
        print(message.key(), message.value() or message.error())
    reader.close()
if how == "write":
    told = []
    writer = Producer({**where, "message.timeout.ms": 8000})
    def tell(error, message): told.append(str(error))
    writer.produce("connect-configs", b'{"state":"PAUSED"}', b"target-state-victim", on_delivery=tell)
    writer.flush(10)
    print("written" if told == ["None"] else "not written")
if how == "ask":  # DescribeCluster, version 1, of brokers (1) or controllers (2), straight away
    for kind in (1, 2):
        request = b"\\0\\x3c\\0\\1\\0\\0\\0\\1\\xff\\xff\\0\\0" + bytes([kind]) + b"\\0"
        with socket.create_connection(("127.0.0.1", int(port)), timeout=20) as line:
            line.sendall(len(request).to_bytes(4, "big") + request)
            try:
                print("answered" if b"127.0.0.1" in line.recv(1000) else "cut")
            except ConnectionResetError:
                print("cut")
"""


def kafka_of(root: Path, login: KafkaLogin | None, port: int = 0) -> EmbeddedKafka:
    return EmbeddedKafka(root / "kafka", port or free_port(), root / "kafka.log", login=login, short_lived=True)


def connection(kafka: EmbeddedKafka) -> Connection:
    return Connection(kafka.bootstrap, kafka.login.librdkafka_settings() if kafka.login else {})


def controller_port(kafka: EmbeddedKafka) -> int:
    return int(json.loads((kafka.data / "identity.json").read_text())["controller_port"])


def write(where: Connection, key: bytes, value: bytes) -> None:
    writer = Producer(where.librdkafka())
    writer.produce(CONFIGS, value, key)
    assert writer.flush(30) == 0


def keys(where: Connection) -> list[bytes | None]:
    log = TopicLog(where, CONFIGS, deadline=Deadline.after(30))
    try:
        return [record.key for record in log.read_to_end(Deadline.after(30))]
    finally:
        log.close()


def fill(kafka: EmbeddedKafka) -> None:
    admin = AdminClient(connection(kafka).librdkafka())  # type: ignore[arg-type]
    admin.create_topics([NewTopic(CONFIGS, 1, 1)])[CONFIGS].result(30)
    write(connection(kafka), b"session-key", b"the-secret-in-the-topic")


@dataclass(frozen=True, slots=True)
class Machine:
    kafka: EmbeddedKafka
    seen: list[str]
    """Every command line of a Java process while the broker started."""


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A broker as `up` starts it, on new data."""
    kafka = kafka_of(tmp_path_factory.mktemp("login"), KafkaLogin(PASSWORD))
    watch = subprocess.Popen([sys.executable, "-c", WATCH], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        kafka.start()
        fill(kafka)
        seen, _ = watch.communicate("end\n", timeout=30)
        yield Machine(kafka, seen.splitlines())
    finally:
        watch.kill()
        watch.wait()
        kafka.kill()


WATCH = """
import glob, select, sys
seen = set()
while not select.select([sys.stdin], [], [], 0.002)[0]:
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            words = open(path, "rb").read().replace(b"\\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if "java" in words:
            seen.add(words.replace("\\n", " "))
print("\\n".join(seen))
"""


def as_nobody(port: int, how: str) -> str:
    """What another user of this machine gets."""
    if os.geteuid() != 0:
        pytest.skip("only root can act as another user")
    command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", sys.executable, "-c", STRANGER]
    done = subprocess.run([*command, str(port), how], capture_output=True, text=True, timeout=120, check=False, cwd="/")
    return done.stdout + done.stderr


def test_the_login_opens_the_door(machine: Machine) -> None:
    assert keys(connection(machine.kafka)) == [b"session-key"]


@dataclass(frozen=True, slots=True)
class Printed:
    """What the printed commands say for a topic: the words of each, by the tool."""

    kcat: list[str]
    console: list[str]

    @classmethod
    def of(cls, machine: Machine, folder: Path) -> "Printed":
        (folder / "kafka-password").write_text(PASSWORD)
        login = DataDirectory(folder).create_kafka_login()
        file = str(DataDirectory(folder).kafka_client_file)
        texts = consumer_commands(machine.kafka.bootstrap, CONFIGS, login.java_settings(), file)
        return cls(*(shlex.split(each.text) for each in texts))

    @staticmethod
    def after(words: list[str], option: str) -> str:
        return words[words.index(option) + 1]


def test_the_printed_command_of_kcat_reads(machine: Machine, tmp_path: Path) -> None:
    """With librdkafka, which reads its file and its options as kcat does."""
    words = Printed.of(machine, tmp_path).kcat
    lines = Path(Printed.after(words, "-F")).read_text().split()
    settings = dict(line.split("=", 1) for line in [*lines, Printed.after(words, "-X")])
    where = {"bootstrap.servers": Printed.after(words, "-b"), "group.id": "none", "auto.offset.reset": "earliest"}
    reader = Consumer({**where, **settings})
    try:
        reader.assign([TopicPartition(Printed.after(words, "-t"), 0, 0)])
        (message,) = reader.consume(1, timeout=30)
        assert message.value() == b"the-secret-in-the-topic"
    finally:
        reader.close()


READ = """
import java.nio.file.*; import java.time.Duration; import java.util.*;
import org.apache.kafka.clients.consumer.*; import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
public class Read {
    public static void main(String[] words) throws Exception {
        var settings = new Properties();
        settings.load(Files.newBufferedReader(Path.of(words[2])));
        settings.put("bootstrap.servers", words[0]);
        settings.put("isolation.level", words[3]);
        settings.put("auto.offset.reset", "earliest");
        try (var reader = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            reader.assign(List.of(new TopicPartition(words[1], 0)));
            for (long end = System.nanoTime() + 30_000_000_000L; System.nanoTime() < end; )
                for (var record : reader.poll(Duration.ofMillis(200))) {
                    System.out.println(record.value());
                    return;
                }
        }
    }
}
"""


@pytest.mark.thorough
def test_the_printed_command_of_kafkas_consumer_reads(machine: Machine, tmp_path: Path) -> None:
    """With Kafka's own Java client, which loads the file of `--consumer.config` in this way."""
    words = Printed.of(machine, tmp_path).console
    (tmp_path / "Read.java").write_text(READ)
    options = ("--bootstrap-server", "--topic", "--consumer.config", "--isolation-level")
    jars = str(resolve("kafka", KAFKA_SERVER) / "*")
    command = [
        str(find_java()),
        "-cp",
        jars,
        str(tmp_path / "Read.java"),
        *(Printed.after(words, each) for each in options),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert "the-secret-in-the-topic" in done.stdout.splitlines()


def test_nobody_reads_the_config_topic(machine: Machine) -> None:
    assert "the-secret-in-the-topic" not in as_nobody(machine.kafka.port, "read")


def test_nobody_writes_to_it(machine: Machine) -> None:
    assert "not written" in as_nobody(machine.kafka.port, "write")
    assert b"target-state-victim" not in keys(connection(machine.kafka))


@pytest.mark.parametrize("listener", ["clients", "controller"])
def test_no_request_is_answered_before_a_login(machine: Machine, listener: str) -> None:
    port = machine.kafka.port if listener == "clients" else controller_port(machine.kafka)
    assert as_nobody(port, "ask").split() == ["cut", "cut"]


@pytest.mark.parametrize(
    "mechanism,user,password",
    [
        (MECHANISM, USER, "wrong"),
        (MECHANISM, "controller", PASSWORD),
        ("SCRAM-SHA-256", USER, PASSWORD),
        ("PLAIN", USER, PASSWORD),
        ("PLAIN", "controller", PASSWORD),
    ],
)
def test_a_wrong_login_is_refused(machine: Machine, mechanism: str, user: str, password: str) -> None:
    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism}
    settings = {**login, "sasl.username": user, "sasl.password": password}
    for port in (machine.kafka.port, controller_port(machine.kafka)):
        assert login_refused(Connection(f"127.0.0.1:{port}", settings), seconds=20)


def test_no_command_line_log_or_open_file_shows_the_password(machine: Machine) -> None:
    assert any("StorageTool" in line or "format.arguments" in line for line in machine.seen), "it sees the format"
    assert any("kafka.Kafka" in line for line in machine.seen)
    assert not any(PASSWORD in line for line in machine.seen)
    assert PASSWORD not in machine.kafka.log.read_text()
    assert PASSWORD not in " ".join(psutil.Process(machine.kafka.process.pid).environ().values())
    told = [path for path in machine.kafka.data.iterdir() if path.is_file() and PASSWORD in path.read_text()]
    assert {path.name for path in told} == {"server.properties"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in told} == {0o600}


def test_a_listener_in_the_brokers_place_learns_nothing() -> None:
    """Another user may take the port while the broker is away. No client tells him the password, or believes him."""
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as squatter:
        squatter.settimeout(20)
        port = squatter.getsockname()[1]
        settings = KafkaLogin(PASSWORD).librdkafka_settings()
        client = AdminClient(Connection(f"127.0.0.1:{port}", settings).librdkafka())  # type: ignore[arg-type]
        line, _ = squatter.accept()
        with line:
            line.settimeout(20)
            while request := line.recv(4096):
                heard.append(request)
                answer = request[8:12] + pretend(request)
                line.sendall(len(answer).to_bytes(4) + answer)
        del client
    assert [request[4:6] for request in heard[-3:]] == [HANDSHAKE, AUTHENTICATE, AUTHENTICATE], "and nothing behind it"
    assert b",p=" in heard[-1], "the proof that it knows the password"
    assert not any(PASSWORD.encode() in request for request in heard)


HANDSHAKE, VERSIONS, AUTHENTICATE = b"\0\x11", b"\0\x12", b"\0\x24"


def pretend(request: bytes) -> bytes:
    """What a broker would answer who knows no password."""
    match request[4:6]:
        case b"\0\x12":  # ApiVersions: version 0 only, and what a login takes
            offers = [(HANDSHAKE, 1), (VERSIONS, 0), (AUTHENTICATE, 0)]
            listed = b"".join(api + b"\0\0" + newest.to_bytes(2) for api, newest in offers)
            wrong = b"\0\0" if request[6:8] == b"\0\0" else b"\0\x23"
            return wrong + len(offers).to_bytes(4) + listed
        case b"\0\x11":
            return b"\0\0\0\0\0\x01\0\x0d" + MECHANISM.encode()
        case _ if b",p=" in request:
            said = b"v=" + base64.b64encode(bytes(64))
        case _:
            said = b"r=" + request.rpartition(b",r=")[2] + b"more,s=" + base64.b64encode(bytes(16)) + b",i=4096"
    return b"\0\0\xff\xff" + len(said).to_bytes(4) + said


@pytest.mark.thorough
def test_data_of_an_earlier_release_gets_the_login(tmp_path: Path) -> None:
    """And another password later on; records, port and cluster stay."""
    before = kafka_of(tmp_path, None)
    before.start()
    fill(before)
    cluster = AdminClient(connection(before).librdkafka()).list_topics(timeout=30).cluster_id  # type: ignore[arg-type]
    before.kill()
    first, second = KafkaLogin.new(), KafkaLogin.new()
    for login in (first, second):
        kafka = kafka_of(tmp_path, login, before.port)
        assert kafka_of(tmp_path, login).needs_user
        kafka.start()
        try:
            assert not kafka.needs_user
            write(connection(kafka), b"more", b"2")
            admin = AdminClient(connection(kafka).librdkafka())  # type: ignore[arg-type]
            assert admin.list_topics(timeout=30).cluster_id == cluster
            assert login_refused(Connection(kafka.bootstrap, KafkaLogin.new().librdkafka_settings()), seconds=20)
        finally:
            kafka.kill()
    kafka = kafka_of(tmp_path, second, before.port)
    kafka.start()
    try:
        assert keys(connection(kafka)) == [b"session-key", b"more", b"more"]
        assert login_refused(Connection(kafka.bootstrap, first.librdkafka_settings()), seconds=20)
        assert second.password not in kafka.log.read_text()
    finally:
        kafka.kill()
