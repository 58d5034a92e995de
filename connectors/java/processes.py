"""Java hosts: JVMs that are started and ended, one for each task, those of a plugin process, or one that tasks share.

The processes of a plugin process start on first use, and again after a failure or changed plugins. If several versions
of a plugin are installed, there is one for each selection of versions in use.

The tasks of this machine whose connectors set `java.process=shared` have one JVM: less memory, and code that is
compiled once. The first task starts it, in a folder that only this user can enter. Each task has a connection to its
Unix socket, and ends with it. The JVM ends when it has had no task for a while. Tasks share one if they see the same
plugins, in the same versions, with the same Java and the same options. What ends it ends all of them; as with any JVM
that ends, they are restarted from their committed offsets.
"""

import fcntl
import hashlib
import json
import logging
import os
import resource
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import lru_cache
from io import BufferedReader
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from ringfence.connectors.api import ConnectorError, OffsetReader
from ringfence.connectors.java import runtime
from ringfence.connectors.java.channel import Event, JavaChannel, JavaEnded
from ringfence.connectors.java.discovery import JavaPlugin, Signature, find_places, find_signature
from ringfence.connectors.java.runtime import SHARED_OPTIONS, JavaRuntime
from ringfence.connectors.process_tree import MARK
from ringfence.connectors.sdk import worker_limits
from ringfence.connectors.sdk.egress import Policy
from ringfence.connectors.sdk.guarded_connects import exec_guarded, run_guarded

if TYPE_CHECKING:
    from ringfence.connectors.java.connector import JavaSourceConnector


# -Xrs: Java installs no signal handlers; -Xshare:auto: a class archive that does not match is ignored. The JVM's own
# messages go to standard error, because standard output carries frames. automatic.config.providers: Kafka's clients in
# a connector would otherwise read files for whoever may configure it, with ${…} and a provider that it names itself.
_JVM_OPTIONS: Final = (
    "-Xrs",
    "-XX:+UseSerialGC",
    "-XX:+ExitOnOutOfMemoryError",
    "-Xshare:auto",
    "-Djava.awt.headless=true",
    "-Dorg.apache.kafka.automatic.config.providers=none",
    "-XX:+DisplayVMOutputToStderr",
    "-Xlog:disable",
    "-Xlog:all=warning,cds=off,cds+dynamic=off:stderr",
    "-Dlog4j2.configurationFile=classpath:log4j2-ringfence.xml",
)
_ARCHIVE: Final = "-XX:SharedArchiveFile="
_PYTHON: Final = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
_HANDED_ON: Final = ("PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "JAVA_HOME", "SSL_CERT_FILE")


def start_jvm(
    runtime: JavaRuntime,
    options: Sequence[str],
    main: str,
    arguments: Sequence[str],
    folder: str,
    *,
    stdin: int,
    stdout: int | IO[bytes],
    stderr: int | IO[bytes],
    names: Path | None = None,
) -> subprocess.Popen[bytes]:
    """Start a JVM in a session of its own, so that Ctrl-C reaches the worker only, which lets its tasks commit. It
    connects to addresses of `egress.allow` only (`guarded_connects`).

    options: of this JVM, before those of the runtime's settings; main, arguments: its class and command line; folder:
    an empty working and home directory, so that plugins find no worker's files; stdin, stdout, stderr: as in
    `subprocess.Popen`; names: for a JVM that outlives this process, a file as in `guarded_connects.exec_guarded`.
    """
    options = [each for each in options if _is_usable(each)]
    command = [
        runtime.java,
        *_JVM_OPTIONS,
        f"-Duser.home={folder}",
        *options,
        "-cp",
        runtime.class_path,
        main,
        *arguments,
    ]
    environment = {**{name: os.environ[name] for name in _HANDED_ON if name in os.environ}, "HOME": folder}
    if names is not None:
        limits = {worker_limits.ENVIRONMENT: json.dumps(worker_limits.current().as_settings())}
        marks = {name: os.environ[name] for name in (MARK, *_PYTHON) if name in os.environ}
        start = [sys.executable, "-m", __name__, json.dumps([*environment]), str(names)]
        command, environment = [*start, *command], {**environment, **limits, **marks}

    def start_process() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            cwd=folder,
            env=environment,
            start_new_session=True,
        )

    with _no_memory_limit():
        return start_process() if names is not None else run_guarded(start_process)


def require_jars(runtime: JavaRuntime) -> None:
    """Raise `ConnectorError` for a missing folder of the class path: each appears whole, or not at all."""
    folders = {os.path.dirname(jar) for jar in runtime.class_path.split(":")}
    missing = sorted(folder for folder in folders if not os.path.isdir(folder))
    if missing:
        raise ConnectorError(
            f"Java connectors need {missing[0]}, which is missing. The worker fetches it: try again in a minute. On a "
            "Spark cluster, copy it to each executor"
        )


def _is_usable(option: str) -> bool:
    """Return whether a JVM starts as well with this option: one for an archive that was not made slows it down."""
    if not option.startswith(_ARCHIVE):
        return True
    try:
        return os.path.getsize(option.removeprefix(_ARCHIVE)) > 0
    except OSError:
        return False


def link_plugins(runtime: JavaRuntime, folder: str) -> str:
    """Return the worker's plugin.path, or the empty folder `folder`, filled with links to the runtime's places."""
    if not runtime.places:
        return runtime.plugin_path
    for number, place in enumerate(runtime.places):  # two folders of the path may contain the same name
        os.symlink(place, os.path.join(folder, f"{number}-{Path(place).name}"))
    return folder


@contextmanager
def _no_memory_limit() -> Iterator[None]:
    """Lift the task's memory limit: a JVM has its heap limit instead."""
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


if __name__ == "__main__":  # of a JVM that outlives the process which starts it
    variables, names, *rest = sys.argv[1:]
    exec_guarded(rest, {name: os.environ[name] for name in json.loads(variables)}, Path(names))


_MAIN: Final = "io.ringfence.connect.Host"
_OUT_OF_MEMORY: Final = 3
_PIPE_BYTES: Final = 512 * 1024
# C2 inlines less than by default. Each task has a JVM of its own, which compiles the connector again. With Debezium
# that took 5.5 s of CPU within the first 300,000 rows; now it takes 1.8 s, and later rows cost as much as before. C1
# alone (-XX:TieredStopAtLevel=1) takes less at first, and half as much again from then on.
_OPTIONS: Final = (
    "-XX:MaxInlineLevel=6",
    "-XX:InlineSmallCode=700",
    "-XX:FreqInlineSize=120",
    "-XX:LoopUnrollLimit=10",
)


class JavaProcess(JavaChannel):
    """One process, with which this one talks over its standard input and output. It ends with this one."""

    def __init__(
        self,
        runtime: JavaRuntime,
        offsets: Callable[[str], OffsetReader | None],
        on_event: Callable[[Event], None] = lambda _event: None,
    ) -> None:
        """Raises `ConnectorError` if the worker has not fetched the runtime's jars."""
        require_jars(runtime)
        self._runtime = runtime
        self._folder = tempfile.mkdtemp(prefix="ringfence-java-")
        self._links = tempfile.mkdtemp(prefix="ringfence-plugins-") if runtime.places else ""
        pipe = subprocess.PIPE
        arguments = [link_plugins(runtime, self._links)]
        self._process = start_jvm(
            runtime,
            [*_OPTIONS, *runtime.options],
            _MAIN,
            arguments,
            self._folder,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
        )
        assert self._process.stdin is not None
        assert isinstance(self._process.stdout, BufferedReader)
        _widen(self._process.stdout)
        super().__init__(self._process.stdout, self._process.stdin, offsets, on_event)
        self._following = threading.Thread(target=self._follow_log, name=f"java-log-{self.pid}", daemon=True)
        self._following.start()
        self._reading.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def runtime(self) -> JavaRuntime:
        return self._runtime

    def close(self, seconds: float) -> None:
        """End the process by closing its input; kill it if it has not ended after `seconds`."""
        if self._writing.acquire(timeout=seconds):
            try:
                self._writer.close()
            except BrokenPipeError:
                pass
            finally:
                self._writing.release()
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for thread in (self._following, self._reading):
            thread.join(1.0)

    def _kill(self, why: str) -> None:
        self._process.kill()

    def _follow_log(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as lines:
            self._log.follow(lines)

    def _wait_for_end(self) -> str:
        code = self._process.wait()
        self._following.join(1.0)  # wait for the last lines of the log
        shutil.rmtree(self._folder, ignore_errors=True)
        if self._links:
            shutil.rmtree(self._links, ignore_errors=True)
        log = f" The end of its log:\n{self._log}" if str(self._log) else ""
        if code == _OUT_OF_MEMORY:
            return (
                "The Java process of the connector ran out of memory and ended. Raise -Xmx in the worker's "
                f"java.options, or let the connector read less at a time.{log}"
            )
        if code < 0:
            return f"The Java process of the connector was ended by signal {-code}.{log}"
        return (
            f"The Java process of the connector ended with exit code {code}: the connector, or one of its libraries, "
            f"called System.exit, or the JVM could not start.{log}"
        )


def _widen(pipe: IO[bytes]) -> None:
    """Give the pipe room for a batch, if the system lets us, so that its ends wake each other less often."""
    resize = getattr(fcntl, "F_SETPIPE_SZ", None)  # Linux only
    if resize is not None:
        with suppress(OSError):  # the user has too many large pipes already
            fcntl.fcntl(pipe, resize, _PIPE_BYTES)


log = logging.getLogger(__name__)

_lock = threading.Lock()
_current: list["ConnectorProcess"] = []


class ConnectorProcess(JavaProcess):
    """A Java process, with the plugins' jars at its start (signature). instances: its connectors by name."""

    def __init__(self, java: runtime.JavaRuntime, signature: tuple[runtime.JavaRuntime, object]) -> None:
        self.signature = signature
        self.answers: dict[str, Mapping[str, Any]] = {}
        self.instances: dict[str, JavaSourceConnector] = {}
        super().__init__(java, self._reader_of, self._tell)

    def _reader_of(self, connector: str) -> OffsetReader | None:
        instance = self.instances.get(connector)
        return None if instance is None else instance.context.offset_reader

    def _tell(self, event: Mapping[str, Any]) -> None:
        if event["event"] == "ended":
            for each in list(self.instances.values()):
                each.on_event(event)  # it requests a reconfiguration, which starts it in a new process
            return
        instance = self.instances.get(str(event.get("connector")))
        if instance is not None:
            instance.on_event(event)


def get(plugin: JavaPlugin | None = None) -> ConnectorProcess:
    """Return the process for this version of a plugin; without a plugin, the process for the newest versions.

    Raises `ConnectorError` if this worker runs no Java connectors.
    """
    java = runtime.current()
    if java is None:
        raise ConnectorError(f"This worker runs no Java connectors: add folders to its {runtime.PLUGIN_PATH}")
    with _lock:
        jars = find_signature(java.folders)
        java = replace(java, places=_places(tuple(java.folders), plugin, jars))
        signature = (java, jars)
        for other in [each for each in _current if each.ended is not None or each.signature[1] != signature[1]]:
            _current.remove(other)
            _let_go(other)
        process = next((each for each in _current if each.signature == signature), None)
        if process is None:
            process = ConnectorProcess(java, signature)
            _current.append(process)
        return process


@lru_cache(maxsize=64)
def _places(folders: tuple[str, ...], plugin: JavaPlugin | None, _jars: Signature) -> tuple[str, ...]:
    """Cache `find_places`, which reads the folders, as long as their jars do not change."""
    return find_places(folders, plugin)


def release(process: ConnectorProcess) -> None:
    """Note that an instance in the process has stopped. A replaced process ends with its last instance."""
    with _lock:
        if process not in _current:
            _let_go(process)


def close() -> None:
    """End all processes, with the connectors in them."""
    with _lock:
        while _current:
            _current.pop().close(1.0)


def _let_go(process: ConnectorProcess) -> None:
    if not process.instances:
        process.close(0.5)


_SHARED_MAIN: Final = "io.ringfence.connect.SharedHost"
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


def connect_shared(
    java: JavaRuntime, offsets: Callable[[str], OffsetReader | None], texts: Iterable[str] = ()
) -> SharedJvm:
    """Return a connection to the JVM of these settings, which is started if it does not run. Raises `ConnectorError`.

    A JVM that does not answer is killed, and another one is started. texts: values of the configuration, for the host
    names in them that `egress.allow` may name.
    """
    home = _folder() / _key(java)
    home.mkdir(mode=0o700, exist_ok=True)
    with _lock_folder(home):
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
def _lock_folder(home: Path, how: int = fcntl.LOCK_EX) -> Iterator[None]:
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
            _SHARED_MAIN,
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
            with suppress(BlockingIOError), _lock_folder(other, fcntl.LOCK_EX | fcntl.LOCK_NB):
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
