"""A real server of Azure Blob Storage: Azurite, from npm. It can be stopped and started again."""

import base64
import os
import shutil
import signal
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from azure.storage.blob import BlobServiceClient, ContainerSasPermissions, generate_container_sas

from ringfence.local.jars import once
from ringfence.local.ports import free_port
from tests.support.server_process import ServerProcess

NEEDS = "Azurite"

ACCOUNT = "reader"
KEY = base64.b64encode(b"secret-of-the-reader").decode()
CONTAINER = "lake"
PREFIX = "in"

_VERSION = "3.34.0"  # the last one for Node 20 and older


class Azurite:
    """One account with one container in a folder of this machine. Skips where there is no npm."""

    def __init__(self, root: Path) -> None:
        if shutil.which("npm") is None:
            pytest.skip("there is no npm on this machine to bring Azurite: apt install npm")
        self._home = once(f"azurite-{_VERSION}", _install)
        self._root = root
        root.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self._server = ServerProcess(root / "log", self.port)
        self.endpoint = f"http://127.0.0.1:{self.port}/{ACCOUNT}"

    def start(self) -> "Azurite":
        script = self._home / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
        options = [f"--location={self._root / 'files'}", "--blobHost=127.0.0.1", f"--blobPort={self.port}"]
        self._server.start(
            ["node", str(script), *options, "--skipApiVersionCheck", "--disableTelemetry", "--silent"],
            60,
            env={**os.environ, "AZURITE_ACCOUNTS": f"{ACCOUNT}:{KEY}"},
        )
        container = self._client()
        if not container.exists():
            container.create_container()
        return self

    def settings(self) -> dict[str, str]:
        """Of a connector that reads what `write` writes."""
        url = f"abfs://{CONTAINER}@{ACCOUNT}.dfs.core.windows.net/{PREFIX}"
        return {"url": url, "azure.endpoint.url": self.endpoint, "azure.account.key": KEY}

    def sas(self, permission: str) -> str:
        """A signature for the container."""
        return str(
            generate_container_sas(
                ACCOUNT,
                CONTAINER,
                account_key=KEY,
                permission=ContainerSasPermissions.from_string(permission),
                expiry=datetime.now(UTC) + timedelta(hours=1),
            )
        )

    def write(self, name: str, data: bytes) -> None:
        self.write_at(f"{PREFIX}/{name}", data)

    def write_at(self, path: str, data: bytes) -> None:
        self._client().upload_blob(path, data, overwrite=True)

    def names(self) -> list[str]:
        """Of all blobs, with their prefixes."""
        return sorted(blob.name for blob in self._client().list_blobs())

    def files(self) -> list[str]:
        """What `write` has written and is still there."""
        return [name for name in self.names() if name.startswith(f"{PREFIX}/")]

    def clear(self) -> None:
        for name in self.names():
            self._client().delete_blob(name)

    def stop(self) -> None:
        """With a signal that lets it write what it keeps: it does so every few seconds only."""
        self._server.stop(signal.SIGTERM)

    def _client(self) -> Any:
        return BlobServiceClient(self.endpoint, credential=KEY).get_container_client(CONTAINER)


def _install(folder: Path) -> Path:
    home = folder / "azurite"
    home.mkdir()
    subprocess.run(
        ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", f"--prefix={home}", f"azurite@{_VERSION}"],
        check=True,
        capture_output=True,
    )
    return home
