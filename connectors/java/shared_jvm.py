"""One JVM for the tasks of this machine whose connectors set `java.process=shared`: less memory, and code that is
compiled once.

The first task starts the JVM, in a folder that only this user can enter. Each task has a connection to its Unix socket,
and ends with it. The JVM ends when it has had no task for a while. Tasks share one if they see the same plugins, in the
same versions, with the same Java and the same options. What ends it ends all of them; as with any JVM that ends, they
are restarted from their committed offsets.
"""

import fcntl
import hashlib
import os
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from ringfence.connectors.api import ConnectorError, OffsetReader
from ringfence.connectors.java.channel import JavaChannel, JavaEnded
from ringfence.connectors.java.discovery import find_signature
from ringfence.connectors.java.jvm import link_plugins, require_jars, start_jvm
from ringfence.connectors.java.runtime import SHARED_OPTIONS, JavaRuntime
from ringfence.connectors.sdk import worker_limits
from ringfence.connectors.sdk.egress import Policy

_MAIN: Final = "io.ringfence.connect.SharedHost"
_IDLE_SECONDS: Final = 60
_STOP_SECONDS: Final = 30
_START_SECONDS: Final = 60.0
_ANSWER_SECONDS: Final = 30.0
_LOG_LINES: Final = 15
_LOG_BYTES: Final = 16_384
_MOST_PATH: Final = 80
"""The system's limit for a socket's path is 103 bytes on macOS, and 107 on Linux."""
_SOCKET, _PID, _LOG, _NAMES = "socket", "pid", "log", "names"


class SharedJvm(JavaChannel):
    """The connection of one task. Killing it kills the JVM, with all its tasks."""

    def __init__(
        self, connection: socket.socket, home: Path, pid: int, offsets: Callable[[str], OffsetReader | None]
    ) -> None:
        self._connection = connection
        self._home = home
        self._pid = pid
        super().__init__(connection.makefile("rb"), connection.makefile("wb"), offsets)
        self._reading.start()

    @property
    def pid(self) -> int:
        return self._pid

    def close(self, seconds: float) -> None:
        with suppress(OSError):  # the JVM has ended
            self._connection.shutdown(socket.SHUT_RDWR)
        self._reading.join(seconds)
        self._connection.close()

    def _kill(self, why: str) -> None:
        """Kill the JVM, unless it has ended and the number may be another process's. Its log tells the others why."""
        if self.ended is None:
            with suppress(OSError), (self._home / _LOG).open("a") as log:
                log.write(f"{why}\n")
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)

    def _wait_for_end(self) -> str:
        return _describe_end(self._home)


def connect(java: JavaRuntime, offsets: Callable[[str], OffsetReader | None], texts: Iterable[str] = ()) -> SharedJvm:
    """Return a connection to the JVM of these settings, which is started if it does not run. Raises `ConnectorError`.

    A JVM that does not answer is killed, and another one is started. texts: values of the configuration, for the host
    names in them that `egress.allow` may name.
    """
    home = _folder() / _key(java)
    home.mkdir(mode=0o700, exist_ok=True)
    with _lock(home):
        connection = _try_to_connect(home)
        if connection is None:
            connection = _start(java, home)
        with (home / _NAMES).open("a", encoding="utf-8") as file:
            hosts = Policy(worker_limits.current().egress).names_in(texts)
            file.writelines(f"{each}\n" for each in dict.fromkeys(hosts))
        return SharedJvm(connection, home, int((home / _PID).read_text()), offsets)


def _folder() -> Path:
    """Return this user's folder. Raises `ConnectorError` if others may enter it: they would be given secrets."""
    folder = Path(tempfile.gettempdir()) / f"ringfence-java-{os.getuid()}"
    if len(os.fsencode(folder)) > _MOST_PATH:
        raise ConnectorError(f"{folder} is too long for a Unix socket: set TMPDIR of the worker to a shorter path")
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise ConnectorError(
            f"{folder} is for the sockets of shared Java processes, but other users may enter it: remove it, or set "
            "TMPDIR of the worker to a folder of its own"
        )
    return folder


def _key(java: JavaRuntime) -> str:
    """Return a name that differs for JVMs with other settings, or with other jars in `plugin.path`."""
    limits = worker_limits.current()
    allowed = (limits.egress, limits.home, limits.own_listeners)
    identity = (java.java, java.class_path, java.plugin_path, java.places, java.shared_options, allowed)
    return hashlib.sha256(repr((identity, find_signature(java.folders))).encode()).hexdigest()[:12]


@contextmanager
def _lock(home: Path, how: int = fcntl.LOCK_EX) -> Iterator[None]:
    """Let one task at a time look for the JVM, or start it."""
    with home.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, how)
        yield


def _try_to_connect(home: Path) -> socket.socket | None:
    """Return a connection that the JVM has answered with its first frame, which stays to be read; None without one."""
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(_ANSWER_SECONDS)
    try:
        connection.connect(str(home / _SOCKET))
        if connection.recv(1, socket.MSG_PEEK):
            connection.settimeout(None)
            return connection
    except TimeoutError:
        with suppress(OSError, ValueError):
            os.kill(int((home / _PID).read_text()), signal.SIGKILL)
    except OSError:  # no JVM, or one that just ends
        pass
    connection.close()
    return None


def _start(java: JavaRuntime, home: Path) -> socket.socket:
    """Start a JVM, and return a connection to it. Raises `JavaEnded` with the reason if it ends instead."""
    require_jars(java)
    _sweep(home)
    shutil.rmtree(home, ignore_errors=True)
    for folder in (home, home / "work", home / "plugins"):
        folder.mkdir(mode=0o700)
    arguments = [link_plugins(java, str(home / "plugins")), str(home / _SOCKET), str(_IDLE_SECONDS), str(_STOP_SECONDS)]
    with (home / _LOG).open("ab") as log:
        process = start_jvm(
            java,
            java.shared_options,
            _MAIN,
            arguments,
            str(home / "work"),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            names=home / _NAMES,
        )
    (home / _PID).write_text(str(process.pid))
    threading.Thread(target=process.wait, name=f"java-{process.pid}-end", daemon=True).start()
    deadline = time.monotonic() + _START_SECONDS
    while (connection := _try_to_connect(home)) is None:
        if process.poll() is not None:
            raise JavaEnded(_describe_end(home))
        if time.monotonic() > deadline:
            process.kill()
            raise JavaEnded(f"The shared Java process did not start within {_START_SECONDS:.0f} s. {_log_of(home)}")
        time.sleep(0.02)
    return connection


def _sweep(home: Path) -> None:
    """Remove what JVMs with other settings, or older plugins, have left beside this one's folder."""
    for other in home.parent.iterdir():
        if other.is_dir() and other != home:
            with suppress(BlockingIOError), _lock(other, fcntl.LOCK_EX | fcntl.LOCK_NB):
                if not (other / _SOCKET).exists():
                    shutil.rmtree(other, ignore_errors=True)


def _describe_end(home: Path) -> str:
    log = _log_of(home)
    if "java.lang.OutOfMemoryError" in log:
        return (
            "The Java process that this task shares with others ran out of memory and ended. Raise -Xmx in the "
            f"worker's {SHARED_OPTIONS}, or give the largest connectors a process of their own: java.process=own. {log}"
        )
    return (
        "The Java process that this task shares with others has ended: it was killed, could not start, or one of its "
        f"connectors called System.exit. {log}"
    )


def _log_of(home: Path) -> str:
    """Return the end of what the JVM wrote that belongs to no task."""
    try:
        with (home / _LOG).open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _LOG_BYTES))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return ""
    return "\n".join(["The end of its log:", *lines[-_LOG_LINES:]]) if lines else ""
