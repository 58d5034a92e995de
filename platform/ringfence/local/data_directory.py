"""The directory of one `ringfence up`: its lock, ports, secret key, and all data."""

import fcntl
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ringfence.consumer_commands import KCAT_FILE
from ringfence.encryption import new_key
from ringfence.local.errors import LocalError
from ringfence.local.guarded_process import process_exists, wait_until
from ringfence.local.kafka_login import KafkaLogin, as_properties


def write_private(path: Path, text: str) -> None:
    """Write the file, mode 0600, or replace it. It is complete or as before, never partial."""
    scratch = path.with_name(f".{path.name}.tmp")
    scratch.unlink(missing_ok=True)  # its mode may be another
    with os.fdopen(os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    scratch.replace(path)


_LAST_ONE_SECONDS = 15.0
_KAFKA_PASSWORD = "kafka-password"  # noqa: S105 - the name of a file


def default_root() -> Path:
    """Return $RINGFENCE_DATA, else ~/.local/share/ringfence."""
    configured = os.environ.get("RINGFENCE_DATA")
    return Path(configured) if configured else Path.home() / ".local" / "share" / "ringfence"


class DataDirectory:
    """Paths and saved choices. Deleting the directory deletes everything."""

    def __init__(self, root: Path) -> None:
        self.root = root.expanduser().absolute()

    def log(self, role: str) -> Path:
        return self.root / "logs" / f"{role}.log"

    @property
    def run_folder(self) -> Path:
        """The folder of the pid files."""
        return self.root / "run"

    def pid_file(self, role: str) -> Path:
        return self.run_folder / f"{role}.pid"

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the directory. Raises LocalError, which names the holder, if another process has locked it."""
        try:
            self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._close_to_others()
            descriptor = os.open(self.root / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise LocalError(
                f"{self.root} cannot be used ({error.strerror}): choose another with --data DIR"
            ) from error
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.read(descriptor, 32).decode().strip() or "unknown"
                raise LocalError(
                    f"Another `ringfence up` (process {holder}) is running on {self.root}: "
                    "stop it, or choose another directory with --data DIR"
                ) from None
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
            yield
        finally:
            # releases the lock; the file stays, or two processes could lock two files with one name
            os.close(descriptor)

    def _close_to_others(self) -> None:
        """Restrict the folder to its owner, since it contains credentials. Raises LocalError, OSError.

        A folder that is open to others and has other content may be in use by them, so its mode is not changed.
        """
        status = self.root.stat()
        if not status.st_mode & 0o077:
            return
        ours = (self.root / "lock").exists() or not any(self.root.iterdir())
        if status.st_uid != os.geteuid() or not ours:
            raise LocalError(
                f"{self.root} can be entered by other users of this machine, and would contain credentials: chmod 700 "
                f"{self.root} if it is only for Ringfence, or choose another directory with --data DIR"
            )
        self.root.chmod(0o700)

    def await_last_one(self) -> None:
        """Wait for the processes of a killed `up`: they are being killed at this moment, and still have the ports.

        A process id that was reused in the meantime only costs the wait.
        """
        for file in sorted(self.run_folder.glob("*.pid")):
            pid = int(file.read_text().strip() or 0)
            wait_until(lambda pid=pid: not process_exists(pid), _LAST_ONE_SECONDS)  # type: ignore[misc]
            file.unlink(missing_ok=True)

    def recall(self, name: str) -> str | None:
        """Return a choice that an earlier start has saved."""
        return self._state().get(name)

    def remember(self, name: str, value: str) -> None:
        """Save a choice for the next start."""
        self._write("state.json", json.dumps(self._state() | {name: value}, indent=2))

    def secret_key(self) -> str:
        """Return the secret key, created at random on the first start; only its owner can read it."""
        path = self.root / "secret-key"
        if not path.exists():
            self._write("secret-key", secrets.token_urlsafe(48))
        return path.read_text().strip()

    def server_token(self) -> str:
        """Return a new token for this start: tokens in files of earlier starts are invalid. Only its owner
        can read it.
        """
        token = secrets.token_urlsafe(32)
        self._write("token", token)
        return token

    @property
    def encryption_key_file(self) -> Path:
        return self.root / "encryption-keys"

    def encryption_keys(self) -> Path:
        """Return the file, with a key that is created at random on the first start; only its owner can read it."""
        if not self.encryption_key_file.exists():
            self._write(self.encryption_key_file.name, new_key())
        return self.encryption_key_file

    def redis_password(self) -> str:
        """Return the password, created at random on the first start; only its owner can read it."""
        path = self.root / "redis-password"
        if not path.exists():
            self._write("redis-password", secrets.token_hex(24))
        return path.read_text().strip()

    def kafka_login(self) -> KafkaLogin | None:
        """Return the embedded Kafka's login; None for the folder of an `up` that had none."""
        path = self.root / _KAFKA_PASSWORD
        return KafkaLogin(path.read_text().strip()) if path.exists() else None

    def create_kafka_login(self) -> KafkaLogin:
        """Return the login, created at random on the first start. Also writes it for clients; only its owner can
        read the files. Another password in the file becomes the login at the next start.
        """
        if not (self.root / _KAFKA_PASSWORD).exists():
            self._write(_KAFKA_PASSWORD, KafkaLogin.new().password)
        login = self.kafka_login()
        assert login is not None
        write_private(self.kafka_client_file, as_properties(login.java_settings()))
        write_private(self.kafka_client_file.with_name(KCAT_FILE), as_properties(login.librdkafka_settings()))
        return login

    @property
    def kafka_client_file(self) -> Path:
        """The login as a properties file of Kafka's Java clients."""
        return self.root / "kafka-client.properties"

    def _state(self) -> dict[str, str]:
        path = self.root / "state.json"
        if not path.exists():
            return {}
        try:
            state: dict[str, str] = json.loads(path.read_text())
        except ValueError as error:
            raise LocalError(f"{path} is damaged ({error}): delete it, then other ports are chosen") from error
        return state

    def _write(self, name: str, text: str) -> None:
        write_private(self.root / name, text + "\n")
