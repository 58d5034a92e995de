"""Java hosts in processes of their own: started, and ended, one for each task, and those of a plugin process.

The processes of a plugin process start on first use, and again after a failure or changed plugins. If several versions
of a plugin are installed, there is one for each selection of versions in use.
"""

import fcntl
import logging
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from io import BufferedReader
from typing import IO, TYPE_CHECKING, Any, Final

from ringfence.connectors.api import ConnectorError, OffsetReader
from ringfence.connectors.java import runtime
from ringfence.connectors.java.channel import Event, JavaChannel
from ringfence.connectors.java.discovery import JavaPlugin, Signature, find_places, find_signature
from ringfence.connectors.java.jvm import link_plugins, require_jars, start_jvm
from ringfence.connectors.java.runtime import JavaRuntime

if TYPE_CHECKING:
    from ringfence.connectors.java.connector import JavaSourceConnector

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
