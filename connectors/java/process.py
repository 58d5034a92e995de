"""A Java host in a process of its own: starts it, and ends it."""

import fcntl
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from io import BufferedReader
from typing import IO, Final

from ringfence.connectors.api import OffsetReader
from ringfence.connectors.java.channel import Event, JavaChannel
from ringfence.connectors.java.jvm import link_plugins, start_jvm
from ringfence.connectors.java.runtime import JavaRuntime

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
