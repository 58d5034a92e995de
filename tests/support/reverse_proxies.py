"""nginx, HAProxy and Envoy as `deploy/` has them, in front of real web processes."""

import contextlib
import os
import shutil
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from ringfence.local.ports import free_port
from tests.support.waiting import eventually

NEEDS = "a reverse proxy"

HOST: Final = "ringfence.example.com"
_DEPLOY: Final = Path(__file__).parents[2] / "deploy"


@dataclass(frozen=True, slots=True)
class Site:
    """The proxy's port, and its kind."""

    kind: str
    port: int

    def raw(self, text: str, seconds: float = 15) -> bytes:
        """What comes back for these bytes on a connection of their own, until it is closed or silent."""
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        answer = b""
        with (
            socket.create_connection(("127.0.0.1", self.port), timeout=seconds) as plain,
            context.wrap_socket(plain, server_hostname=HOST) as connection,
        ):
            connection.sendall(text.replace("\n", "\r\n").encode("latin-1"))
            connection.settimeout(3)
            with contextlib.suppress(TimeoutError, ConnectionError, ssl.SSLError):
                while part := connection.recv(65536):
                    answer += part
        return answer

    def client(self, address: str = "127.0.0.1", **headers: str) -> httpx.Client:
        """address: the client's own."""
        named = {"host": HOST, **headers}
        way = httpx.HTTPTransport(verify=False, local_address=address)
        return httpx.Client(base_url=f"https://127.0.0.1:{self.port}", headers=named, transport=way, timeout=30)


def _write_certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate with its key in one file, as HAProxy wants it, and the key alone."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, HOST)])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = (
        builder.serial_number(1).not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
    )
    certificate = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    both, alone = folder / "both.pem", folder / "key.pem"
    both.write_bytes(certificate + secret)
    alone.write_bytes(secret)
    return both, alone


def _command_for(kind: str, folder: Path, port: int, webs: Sequence[int]) -> list[str]:
    """Write the deployed file with these ports and a certificate, and return the command that runs it."""
    both, alone = _write_certificate(folder)
    places = [f"{sys.prefix}/bin", "/usr/sbin", "/usr/local/sbin", "/usr/bin", "/usr/local/bin", "/opt/bin"]
    binary = shutil.which(kind, path=os.pathsep.join(places))
    if binary is None:
        pytest.skip(f"{kind} is not installed")
    text = (_DEPLOY / {"nginx": "nginx.conf", "haproxy": "haproxy.cfg", "envoy": "envoy.yaml"}[kind]).read_text()
    text = text.replace("/etc/ssl/ringfence.pem", str(both)).replace("/etc/ssl/ringfence.key", str(alone))
    web, other = (*webs, free_port())[:2]
    text = text.replace("127.0.0.1:8083", f"127.0.0.1:{web}").replace("127.0.0.1:8084", f"127.0.0.1:{other}")
    text = text.replace("listen 443 ", f"listen 127.0.0.1:{port} ").replace("bind :443 ", f"bind 127.0.0.1:{port} ")
    file = folder / kind
    if kind == "envoy":
        text = text.replace("address: 0.0.0.0, port_value: 443", f"address: 127.0.0.1, port_value: {port}")
        text = text.replace("port_value: 8083", f"port_value: {web}")
        file = folder / "envoy.yaml"
        file.write_text(text)
        return [binary, "--config-path", str(file), "--concurrency", "2", "--disable-hot-restart"]
    if kind == "haproxy":
        file.write_text(text)
        return [binary, "-db", "-f", str(file)]
    folders = "".join(
        f"{each}_temp_path {folder}/{each};\n" for each in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    user = "user root;\n" if Path("/root").owner() == "root" and Path.home() == Path("/root") else ""
    file.write_text(
        f"{user}daemon off;\nmaster_process off;\npid {folder}/pid;\nerror_log {folder}/error.log;\n"
        f"events {{ worker_connections 512; }}\nhttp {{\naccess_log off;\n{folders}{text}\n}}\n"
    )
    return [binary, "-c", str(file), "-p", str(folder)]


@contextlib.contextmanager
def running_proxy(kind: str, folder: Path, webs: Sequence[int]) -> Iterator[Site]:
    """nginx, haproxy or envoy before the web processes at these ports, one or two; it answers. Skips the test where it
    is not installed.
    """
    port = free_port()
    command = _command_for(kind, folder, port, webs)
    log = folder / "proxy.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        ready = Site(kind, port)

        def answers() -> bool:
            assert process.poll() is None, log.read_text()
            with contextlib.suppress(httpx.TransportError), ready.client() as client:
                return client.get("/health/live").status_code == 200
            return False

        eventually(answers, 60, lambda: log.read_text(), pause=0.1)
        yield ready
    finally:
        process.kill()
        process.wait()
