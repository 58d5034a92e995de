"""A real kube-apiserver with etcd behind it. No controller and no kubelet run: objects are stored, no pod starts."""

import secrets
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from ringfence.local.ports import free_port
from tests.support.built_tools import find, started
from tests.support.waiting import eventually

Json = Any


class ApiServer:
    """One that runs, with its administrator's token."""

    def __init__(self, url: str, certificate: Path, token: str) -> None:
        self.url, self._certificate, self._token = url, certificate, token
        self._http = httpx.Client(
            base_url=url,
            headers={"Authorization": f"Bearer {token}"},
            verify=ssl.create_default_context(cafile=str(certificate)),
            timeout=60,
        )
        self._resources: dict[tuple[str, str], Json] = {}

    def is_ready(self) -> bool:
        try:
            return self._http.get("/readyz").status_code == 200
        except httpx.TransportError:
            return False

    def apply(self, document: Json, namespace: str) -> httpx.Response:
        """Apply it as `kubectl apply --server-side` does: an unknown field is refused."""
        return self._http.patch(
            f"{self._path(document, namespace)}/{document['metadata']['name']}",
            params={"fieldManager": "tests", "fieldValidation": "Strict"},
            content=yaml.safe_dump(document),
            headers={"Content-Type": "application/apply-patch+yaml"},
        )

    def try_to_create(self, document: Json, namespace: str) -> httpx.Response:
        """Have it admitted, and store nothing."""
        return self._http.post(
            self._path(document, namespace), params={"dryRun": "All", "fieldValidation": "Strict"}, json=document
        )

    def get(self, path: str) -> Json:
        return self._http.get(path).raise_for_status().json()

    def _path(self, document: Json, namespace: str) -> str:
        version, kind = document["apiVersion"], document["kind"]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        if (version, kind) not in self._resources:
            for each in self.get(root)["resources"]:
                if "/" not in each["name"]:
                    self._resources[version, each["kind"]] = each
        resource = self._resources[version, kind]
        return (
            f"{root}/namespaces/{namespace}/{resource['name']}"
            if resource["namespaced"]
            else f"{root}/{resource['name']}"
        )

    def write_kubeconfig(self, file: Path) -> None:
        """For `helm`."""
        file.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "tests",
                    "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": "tests"}}],
                    "clusters": [
                        {
                            "name": "tests",
                            "cluster": {"server": self.url, "certificate-authority": str(self._certificate)},
                        }
                    ],
                    "users": [{"name": "tests", "user": {"token": self._token}}],
                }
            )
        )

    def close(self) -> None:
        self._http.close()


@contextmanager
def running(folder: Path) -> Iterator[ApiServer]:
    """Start etcd and the API server in an empty folder."""
    etcd = find("etcd", "apt-get install etcd-server")
    server = find("kube-apiserver", "make chart-server builds it, where Go is, in eight minutes of CPU time")
    clients, peers, port = (f"http://127.0.0.1:{free_port()}", f"http://127.0.0.1:{free_port()}", free_port())
    key, tokens, token = folder / "accounts.key", folder / "tokens.csv", secrets.token_urlsafe()
    key.write_bytes(
        rsa.generate_private_key(65537, 2048).private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
    )
    tokens.write_text(f"{token},tests,tests,system:masters\n")
    with (
        started(
            [
                etcd, f"--data-dir={folder / 'etcd'}", f"--listen-client-urls={clients}",
                f"--advertise-client-urls={clients}", f"--listen-peer-urls={peers}",
                f"--initial-advertise-peer-urls={peers}", f"--initial-cluster=default={peers}",
            ],
            folder / "etcd.log",
        ),
        started(
            [
                server, f"--etcd-servers={clients}", "--bind-address=127.0.0.1", f"--secure-port={port}",
                f"--cert-dir={folder}", "--service-account-issuer=https://kubernetes.default.svc",
                f"--service-account-key-file={key}", f"--service-account-signing-key-file={key}",
                f"--token-auth-file={tokens}", "--authorization-mode=RBAC", "--service-cluster-ip-range=10.96.0.0/16",
                "--endpoint-reconciler-type=none", "--advertise-address=192.0.2.1",
                # Nobody makes the accounts that it would ask for.
                "--disable-admission-plugins=ServiceAccount",
            ],
            folder / "kube-apiserver.log",
        ) as process,
    ):  # fmt: skip
        certificate = folder / "apiserver.crt"
        eventually(lambda: certificate.exists() or process.poll() is not None, 60, "its certificate", pause=0.1)
        assert process.poll() is None, (folder / "kube-apiserver.log").read_text()[-4000:]
        made = ApiServer(f"https://127.0.0.1:{port}", certificate, token)
        try:
            eventually(
                lambda: made.is_ready() or process.poll() is not None,
                180,
                lambda: (folder / "kube-apiserver.log").read_text()[-4000:],
                pause=0.2,
            )
            assert process.poll() is None, (folder / "kube-apiserver.log").read_text()[-4000:]
            yield made
        finally:
            made.close()


def what_is_lost(sent: Json, stored: Json, path: str = "") -> list[str]:
    """The places of what was sent and is not stored as it was; a quantity may be written in another way."""
    if isinstance(sent, Mapping) and isinstance(stored, Mapping):
        return [
            place
            for name, value in sent.items()
            if value not in (None, {}, [])
            for place in (what_is_lost(value, stored[name], f"{path}.{name}") if name in stored else [f"{path}.{name}"])
        ]
    if isinstance(sent, list) and isinstance(stored, list) and len(sent) == len(stored):
        pairs = enumerate(zip(sent, stored, strict=True))
        return [place for number, pair in pairs for place in what_is_lost(*pair, f"{path}[{number}]")]
    return [] if sent == stored or _quantity(sent) == _quantity(stored) else [f"{path}: {sent!r} -> {stored!r}"]


_UNITS = {"m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30}


def _quantity(value: Json) -> float | str:
    text = str(value)
    digits = text.rstrip("".join({letter for unit in _UNITS for letter in unit}))
    try:
        return float(digits) * _UNITS.get(text[len(digits) :], 1.0)
    except ValueError:
        return text
