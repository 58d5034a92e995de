"""A real S3 server of our own: SeaweedFS, from its wheel. It can be killed and started again."""

import json
import sys
from pathlib import Path
from typing import Any

from tests.support.names import unique
from tests.support.server_process import ServerProcess
from tests.support.waiting import eventually

NEEDS = "an S3 server"

ACCESS_KEY = "reader"
SECRET_KEY = "secret-of-the-reader"


class S3Server:
    """One bucket, and one account that may do everything in it."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.port = _low_port()
        self._server = ServerProcess(root / "weed.log", self.port)
        self.endpoint = f"http://127.0.0.1:{self.port}"
        self.bucket = unique("bucket")

    def start(self) -> "S3Server":
        root = self._root
        root.mkdir(parents=True, exist_ok=True)
        account = {"name": "reader", "credentials": [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}]}
        (root / "s3.json").write_text(json.dumps({"identities": [{**account, "actions": ["Admin", "Read", "Write"]}]}))
        ports = {name: str(_low_port()) for name in ("master.port", "volume.port", "filer.port")}
        self._server.start(
            [
                str(Path(sys.executable).parent / "weed"),
                "server",
                f"-dir={root}",
                "-ip=127.0.0.1",
                "-s3",
                f"-s3.port={self.port}",
                f"-s3.config={root / 's3.json'}",
                "-s3.port.iceberg=0",
                "-master.telemetry=false",
                "-volume.max=8",
                "-master.volumeSizeLimitMB=64",
                *(f"-{name}={port}" for name, port in ports.items()),
            ],
            90,
            cwd=root,
        )
        eventually(self._has_bucket, 90, self._server.tail, pause=0.5)
        return self

    def client(self) -> Any:
        """s3fs, signed in."""
        import s3fs

        return s3fs.S3FileSystem(
            key=ACCESS_KEY,
            secret=SECRET_KEY,
            endpoint_url=self.endpoint,
            use_listings_cache=False,
            skip_instance_cache=True,
        )

    def settings(self) -> dict[str, str]:
        """Of a connector that reads the bucket."""
        return {
            "url": f"s3://{self.bucket}/in",
            "s3.endpoint.url": self.endpoint,
            "s3.access.key": ACCESS_KEY,
            "s3.secret.key": SECRET_KEY,
        }

    def write(self, name: str, data: bytes) -> None:
        self.client().pipe_file(f"{self.bucket}/in/{name}", data)

    def files(self) -> list[str]:
        """What `write` has written and is still there."""
        folder = f"{self.bucket}/in/"
        return sorted(name for name in self.client().find(folder) if name.startswith(folder))

    def stop(self) -> None:
        self._server.stop()

    def _has_bucket(self) -> bool:
        try:
            self.client().mkdir(self.bucket)
        except FileExistsError:
            return True  # of the life before
        except OSError:
            return False  # its parts come up one after another
        return True


def _low_port() -> int:
    """A free one that is free 10000 higher, too: there its gRPC listens."""
    import random
    import socket

    while True:
        port = random.randint(20000, 30000)
        with socket.socket() as first, socket.socket() as second:
            try:
                first.bind(("127.0.0.1", port))
                second.bind(("127.0.0.1", port + 10000))
            except OSError:
                continue
        return port
