"""Keys and certificates that a configuration names: what was judged is what the client's library opens."""

import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from ringfence.connectors.api import ConnectorError
from ringfence.connectors.builtin.kafka_source.cluster import source_settings, target_settings
from ringfence.connectors.converters.registry.settings import client_config, registry_settings
from ringfence.connectors.sdk import worker_limits
from ringfence.connectors.sdk.files import ClosedFile, client_files, pin
from ringfence.connectors.sdk.kafka_settings.java_names import Role, known_settings
from ringfence.connectors.sdk.worker_limits import WorkerLimits
from ringfence.fencing.errors import Invalid
from ringfence.fencing.kafka.connection import Connection, connection_of, resolve_settings

HOME = "127.0.0.1:9"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only one that configurations may name files of."""
    inside = tmp_path / "inside"
    inside.mkdir()
    monkeypatch.setattr(worker_limits, "_current", [WorkerLimits((str(inside),), egress="loopback,public,private")])
    (tmp_path / "secret").write_text("the platform's")
    return inside


def certificate() -> str:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "here")])
    now = datetime.now(UTC)
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(now).not_valid_after(now + timedelta(days=1))
    text = made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    text += key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return text.decode()


def override(path: Path) -> str:
    config = {f"admin.override.ssl.{store}.type": "PEM" for store in ("truststore", "keystore")}
    config |= {"admin.override.ssl.truststore.location": str(path), "admin.override.security.protocol": "SSL"}
    found = resolve_settings(Role.ADMIN, {}, config)
    assert not found.errors
    return found.settings["ssl.ca.location"]


def source(path: Path) -> str:
    found = source_settings({"source.cluster.bootstrap.servers": HOME, "source.cluster.ssl.ca.location": str(path)})
    assert not found.errors
    return found.settings["ssl.ca.location"]


def target(path: Path) -> str:
    found = target_settings({"target.cluster.bootstrap.servers": HOME, "target.cluster.ssl.ca.location": str(path)})
    assert not found.errors
    return found.settings["ssl.ca.location"]


def registry(path: Path) -> str:
    given = {"schema.registry.url": "https://r", "schema.registry.ssl.truststore.location": str(path)}
    return str(client_config(registry_settings().parse(given))["ssl.ca.location"])


EVERY = pytest.mark.parametrize("name_of", [override, source, target, registry])


@EVERY
def test_a_link_that_is_exchanged_before_the_client_opens_it_changes_nothing(
    name_of: Callable[[Path], str], folder: Path
) -> None:
    text = certificate()
    link = folder / "ca.pem"
    (folder / "real.pem").write_text(text)
    link.symlink_to(folder / "real.pem")
    opened = name_of(link)
    link.unlink()
    link.symlink_to(folder.parent / "secret")
    (folder / "real.pem").write_text("replaced")
    assert Path(opened).read_text() == text
    ssl.create_default_context(cafile=opened).load_cert_chain(opened)
    client = Consumer(
        {"bootstrap.servers": HOME, "group.id": "g", "security.protocol": "ssl", "ssl.ca.location": opened}
        | {"ssl.certificate.location": opened, "ssl.key.location": opened, "log_level": 0}
    )
    client.close()


@EVERY
def test_a_link_out_of_the_roots_is_read_by_no_client(name_of: Callable[[Path], str], folder: Path) -> None:
    link = folder / "ca.pem"
    link.symlink_to(folder.parent / "secret")
    with pytest.raises((AssertionError, ClosedFile)):
        name_of(link)


def test_every_setting_of_a_client_that_names_a_file_is_known() -> None:
    """Any other one would be opened unseen."""
    names = {name for role in Role for name in known_settings(role) if name.endswith((".location", ".file", ".path"))}
    names |= {name for name in registry_settings().keys if name.endswith(".location")}
    assert {name for name, _ in client_files(dict.fromkeys(names, "/etc/passwd"))} == names


def test_the_leader_refuses_it_with_the_reason(folder: Path) -> None:
    """It fences with the connector's admin settings, in the worker's own process."""
    for path, reason in ((folder.parent / "secret", "not below a folder"), (folder / "none", "No such file")):
        config = {"admin.override.ssl.ca.location": str(path)}
        with pytest.raises(Invalid, match=reason):
            connection_of(Role.ADMIN, Connection(HOME), {}, config)


def test_one_copy_of_each_content(folder: Path) -> None:
    for name, text in (("a", "1"), ("b", "1"), ("c", "2")):
        (folder / name).write_text(text)
    a, b, c = (pin(str(folder / name)) for name in "abc")
    assert a == b != c
    (folder / "large").write_bytes(b"x" * (1 << 21))
    with pytest.raises(ValueError, match="1 MiB"):
        pin(str(folder / "large"))
    with pytest.raises(ConnectorError):
        pin("/proc/self/environ")
