"""The directory of one `ringfence up`: its lock, its ports, its secret key, where everything is kept."""

import fcntl
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ringfence.encryption import new_key
from ringfence.local.errors import LocalError
from ringfence.local.process import process_exists, wait_until

_LAST_ONE_SECONDS = 15.0


def default_root() -> Path:
    """$RINGFENCE_DATA, else ~/.local/share/ringfence."""
    configured = os.environ.get("RINGFENCE_DATA")
    return Path(configured) if configured else Path.home() / ".local" / "share" / "ringfence"


class Instance:
    """Paths and remembered choices. Deleting the directory forgets everything."""

    def __init__(self, root: Path) -> None:
        self.root = root.expanduser().absolute()

    def log(self, role: str) -> Path:
        return self.root / "logs" / f"{role}.log"

    @property
    def run_folder(self) -> Path:
        """Of the pid files."""
        return self.root / "run"

    def pid_file(self, role: str) -> Path:
        return self.run_folder / f"{role}.pid"

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the directory. Raises LocalError, naming the holder, where another process has it."""
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
            os.close(descriptor)  # lets go of the lock; the file stays, or two could hold two files of one name

    def _close_to_others(self) -> None:
        """Credentials are in it: its owner alone may enter. Raises LocalError, OSError.

        A folder that is open to others and holds something else may be in use by them, so its mode is left alone.
        """
        found = self.root.stat()
        if not found.st_mode & 0o077:
            return
        ours = (self.root / "lock").exists() or not any(self.root.iterdir())
        if found.st_uid != os.geteuid() or not ours:
            raise LocalError(
                f"{self.root} can be entered by other users of this machine, and credentials would be in it: "
                f"chmod 700 {self.root} if it is for Ringfence alone, or choose another directory with --data DIR"
            )
        self.root.chmod(0o700)

    def await_last_one(self) -> None:
        """Wait for what a killed `up` left: its processes are being killed at this moment, and hold the ports.

        A process id that is taken by something else in the meantime costs the wait, and nothing more.
        """
        for file in sorted(self.run_folder.glob("*.pid")):
            pid = int(file.read_text().strip() or 0)
            wait_until(lambda pid=pid: not process_exists(pid), _LAST_ONE_SECONDS)  # type: ignore[misc]
            file.unlink(missing_ok=True)

    def recall(self, name: str) -> str | None:
        """A choice that an earlier start has made."""
        return self._state().get(name)

    def remember(self, name: str, value: str) -> None:
        """Keep a choice for the next start."""
        self._write("state.json", json.dumps(self._state() | {name: value}, indent=2))

    def secret_key(self) -> str:
        """Made at random on the first start; readable by its owner only."""
        path = self.root / "secret-key"
        if not path.exists():
            self._write("secret-key", secrets.token_urlsafe(48))
        return path.read_text().strip()

    def server_token(self) -> str:
        """Made again at each start: what stands in a file of an earlier one is worth nothing. For its owner only."""
        token = secrets.token_urlsafe(32)
        self._write("token", token)
        return token

    @property
    def encryption_key_file(self) -> Path:
        return self.root / "encryption-keys"

    def encryption_keys(self) -> Path:
        """The file, with a key that is made at random on the first start; readable by its owner only."""
        if not self.encryption_key_file.exists():
            self._write(self.encryption_key_file.name, new_key())
        return self.encryption_key_file

    def redis_password(self) -> str:
        """Made at random on the first start; readable by its owner only."""
        path = self.root / "redis-password"
        if not path.exists():
            self._write("redis-password", secrets.token_hex(24))
        return path.read_text().strip()

    def _state(self) -> dict[str, str]:
        path = self.root / "state.json"
        if not path.exists():
            return {}
        try:
            state: dict[str, str] = json.loads(path.read_text())
        except ValueError as error:
            raise LocalError(f"{path} is damaged ({error}): delete it, other ports are chosen then") from error
        return state

    def _write(self, name: str, text: str) -> None:
        scratch = self.root / f".{name}.tmp"
        descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(text + "\n")
        scratch.replace(self.root / name)
