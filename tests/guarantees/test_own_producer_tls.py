"""The producer of our own over TLS: certificates of both sides, large records, and a broker that nobody vouches for."""

import datetime
import ipaddress
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Fatal, Retriable
from ringfence.fencing.fetching.partition_reader import PartitionReader
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.fencing.transactions.producer import Producer
from ringfence.fencing.transactions.record_columns import RecordColumns
from ringfence.local.kafka import EmbeddedKafka
from ringfence.local.ports import free_ports
from tests.support.broker import Broker
from tests.support.encoded import read_numbers
from tests.support.fetched import run_of

pytestmark = pytest.mark.broker


def make_certificate() -> tuple[str, str]:
    """A certificate of 127.0.0.1 that vouches for itself, and its key, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(address, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return certificate.public_bytes(serialization.Encoding.PEM).decode(), key.private_bytes(*form).decode()


def ways_to_say_it(root: Path, broker: str, client: str, client_key: str) -> list[dict[str, str]]:
    """The same keys and certificates, as each of librdkafka's settings has them."""
    key = serialization.load_pem_private_key(client_key.encode(), None)
    form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    encrypted = key.private_bytes(*form, serialization.BestAvailableEncryption(b"open sesame")).decode()
    for name, text in (("ca", broker), ("client", client), ("key", client_key), ("encrypted", encrypted)):
        (root / f"{name}.pem").write_text(text)
    folder = root / "authorities"
    folder.mkdir()
    (folder / "one.pem").write_text(broker)
    subprocess.run(["openssl", "rehash", str(folder)], check=True)
    plain = {"ssl.certificate.pem": client, "ssl.key.pem": client_key}
    return [
        {"ssl.ca.location": str(root / "ca.pem"), **plain},
        {"ssl.ca.location": str(folder), **plain},
        {"ssl.ca.pem": f"# für Kafka\n{broker}", **plain},
        {
            "ssl.ca.pem": broker,
            "ssl.certificate.location": str(root / "client.pem"),
            "ssl.key.location": str(root / "key.pem"),
        },
        {
            "ssl.ca.pem": broker,
            "ssl.certificate.location": str(root / "client.pem"),
            "ssl.key.location": str(root / "encrypted.pem"),
            "ssl.key.password": "open sesame",
        },
        {
            "ssl.ca.pem": broker,
            "ssl.certificate.pem": client,
            "ssl.key.pem": encrypted,
            "ssl.key.password": "open sesame",
        },
        {"ssl.ca.pem": broker, **plain, "ssl.endpoint.identification.algorithm": "none"},
    ]


@pytest.mark.parametrize("password", [{}, {"ssl.key.password": "wrong"}], ids=["none", "wrong"])
def test_an_encrypted_key_without_its_password_is_an_error_at_once(password: dict[str, str], tmp_path: Path) -> None:
    certificate, key = make_certificate()
    encrypted = ways_to_say_it(tmp_path, certificate, certificate, key)[5]["ssl.key.pem"]
    settings = {"security.protocol": "ssl", "ssl.certificate.pem": certificate, "ssl.key.pem": encrypted, **password}
    with pytest.raises(Fatal, match="cannot be used"):
        Producer(Connection("nowhere:1", settings), "id")


def test_one_of_several_addresses_is_enough(broker: Broker, unique: Callable[[str], str]) -> None:
    """The others refuse connections, or have no address at all."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        bootstrap = f"127.0.0.1:{closed.getsockname()[1]}, no-such-host.invalid:9092,{broker.bootstrap}"
        for _ in range(3):
            producer = Producer(Connection(bootstrap), unique("several"))
            producer.init(Deadline.after(30))
            producer.close()


def test_transactions_over_tls(tmp_path: Path, unique: Callable[[str], str]) -> None:
    port, hidden, controller = free_ports(3)
    (broker, broker_key), (client, client_key) = make_certificate(), make_certificate()
    (tmp_path / "keystore.pem").write_text(broker_key + broker)
    (tmp_path / "truststore.pem").write_text(client)
    kafka = EmbeddedKafka(
        tmp_path / "kafka",
        port,
        tmp_path / "log",
        short_lived=True,
        properties={
            "listeners": f"SSL://127.0.0.1:{port},IN://127.0.0.1:{hidden},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"SSL://127.0.0.1:{port},IN://127.0.0.1:{hidden}",
            "listener.security.protocol.map": "SSL:SSL,IN:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "IN",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "ssl.client.auth": "required",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(tmp_path / "keystore.pem"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(tmp_path / "truststore.pem"),
        },
    )
    kafka.start()
    try:
        inside = Connection(f"127.0.0.1:{hidden}")
        create_topics(inside, [TopicSpec("t")], Deadline.after(30))
        settings = {"security.protocol": "ssl", "ssl.certificate.pem": client, "ssl.key.pem": client_key}
        producer = Producer(Connection(kafka.bootstrap, {**settings, "ssl.ca.pem": broker}), unique("tls"))
        producer.init(Deadline.after(30))
        size = 60_000  # digits: several batches, which no socket takes at once
        for first in range(0, 3 * size, size):
            producer.begin()
            producer.produce_columns(
                RecordColumns("t", -1, [b"%0100d" % number for number in range(first, first + size)])
            )
            producer.commit(Deadline.after(60))
        assert read_numbers(inside, "t", 1)[0] == list(range(3 * size))
        producer.close()
        cluster = {**settings, "ssl.ca.pem": broker, "bootstrap.servers": kafka.bootstrap}
        reader = PartitionReader(cluster, "read_committed", 2**31, lambda host, _: [host])
        reader.add({("t", 0): 0})
        values: list[bytes | None] = []
        while len(values) < 3 * size:
            for batch in reader.poll(60):
                values += run_of(batch).values
        reader.close()
        assert values == [b"%0100d" % number for number in range(3 * size)]
        for each in ways_to_say_it(tmp_path, broker, client, client_key):
            other = Producer(Connection(kafka.bootstrap, {"security.protocol": "ssl", **each}), unique("tls"))
            other.init(Deadline.after(30))
            other.close()
        stranger = Producer(Connection(kafka.bootstrap, {**settings, "ssl.ca.pem": client}), unique("tls"))
        with pytest.raises(Retriable, match="CERTIFICATE_VERIFY_FAILED"):
            stranger.init(Deadline.after(2))
        stranger.close()
    finally:
        kafka.kill()
