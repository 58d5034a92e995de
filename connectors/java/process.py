"""Manages one Java host process: starts and ends it, sends requests, and dispatches its frames."""

import itertools
import json
import os
import queue
import resource
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BufferedReader
from typing import Any, Final

from ringfence.connectors.api import ConnectorError, OffsetReader
from ringfence.connectors.api.errors import BadRecord
from ringfence.connectors.java.frames import BATCH, HEAD, JSON, BatchFrame, decode_batch, encode
from ringfence.connectors.java.logs import LastLines
from ringfence.connectors.java.runtime import JavaRuntime

_MAIN: Final = "io.ringfence.connect.Host"
_OUT_OF_MEMORY: Final = 3
# -Xrs: Java installs no signal handlers; -Xshare:auto: a class archive that does not match is ignored. The JVM's own
# messages go to standard error, because standard output carries frames.
#
# With the last four, C2 inlines less than by default. Each task has a JVM of its own, which compiles the connector
# again. With Debezium that took 5.5 s of CPU within the first 300,000 rows; now it takes 1.8 s, and later rows cost as
# much as before. C1 alone (-XX:TieredStopAtLevel=1) takes less at first, and half as much again from then on.
_OPTIONS: Final = (
    "-Xrs",
    "-XX:+UseSerialGC",
    "-XX:+ExitOnOutOfMemoryError",
    "-Xshare:auto",
    "-Djava.awt.headless=true",
    "-XX:+DisplayVMOutputToStderr",
    "-Xlog:disable",
    "-Xlog:all=warning,cds=off,cds+dynamic=off:stderr",
    "-XX:MaxInlineLevel=6",
    "-XX:InlineSmallCode=700",
    "-XX:FreqInlineSize=120",
    "-XX:LoopUnrollLimit=10",
)
_LOG: Final = "-Dlog4j2.configurationFile=classpath:log4j2-ringfence.xml"
_HANDED_ON: Final = ("PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "JAVA_HOME", "SSL_CERT_FILE")

_NO_FRAME: Final = (
    "The Java process of the connector wrote to its standard output, which is not for logs: {!r}. Remove from the "
    "worker's java.options what lets the JVM write there, or name a file, as in -Xlog:gc:file=/tmp/gc.log"
)

Event = Mapping[str, Any]


class JavaEnded(ConnectorError):
    """The Java process has ended, or was killed because it did not respond."""


class JavaFailure(ConnectorError):
    """Java code has thrown an exception. The message is its stack trace or its message.

    kind: the exception's class; record: the record that caused it, or None.
    """

    def __init__(self, message: str, kind: str = "", record: BadRecord | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.record = record

    @property
    def summary(self) -> str:
        """The message without the stack trace."""
        return str(self).partition("\n\tat ")[0]


class JavaProcess:
    """One process. Thread-safe.

    offsets(connector): returns the reader of a connector's committed offsets ("" in a task), or None; on_event: called
    on the reader's thread with the events of connector instances, and with `ended`. frames: batches, and the task's
    events.
    """

    def __init__(
        self,
        runtime: JavaRuntime,
        offsets: Callable[[str], OffsetReader | None],
        on_event: Callable[[Event], None] = lambda _event: None,
    ) -> None:
        self.frames: queue.SimpleQueue[BatchFrame | Event | JavaEnded] = queue.SimpleQueue()
        self.last_sign = time.monotonic()
        self.ready = False
        self.polling_ms = 0
        self.metrics: Mapping[str, float] = {}
        self._runtime = runtime
        self._offsets = offsets
        self._on_event = on_event
        self._ids = itertools.count(1)
        self._answers: dict[int, queue.SimpleQueue[Event | JavaEnded]] = {}
        self._writing = threading.Lock()
        self._log = LastLines()
        self._killed_for = ""
        self.ended: JavaEnded | None = None
        self._folder = tempfile.mkdtemp(prefix="ringfence-java-")
        self._links = tempfile.mkdtemp(prefix="ringfence-plugins-") if runtime.places else ""
        self._process = _start(runtime, self._folder, _plugin_path(runtime, self._links))
        self._threads = [
            threading.Thread(target=self._follow_log, name=f"java-log-{self.pid}", daemon=True),
            threading.Thread(target=self._read, name=f"java-{self.pid}", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def runtime(self) -> JavaRuntime:
        return self._runtime

    def send(self, op: str, **more: object) -> None:
        """Send one message. If the process has ended, do nothing: `frames` contains a `JavaEnded`."""
        data = encode({"op": op, **more})
        assert self._process.stdin is not None
        try:
            with self._writing:
                self._process.stdin.write(data)
                self._process.stdin.flush()
        except (BrokenPipeError, ValueError):  # ended, or closed
            pass

    def call(self, op: str, *, seconds: float = 60.0, **more: object) -> Any:
        """Return an operation's result. Raises `JavaFailure` if Java code throws, `JavaEnded`, TimeoutError."""
        number = next(self._ids)
        answers = self._answers[number] = queue.SimpleQueue()
        if self.ended is not None:
            raise self.ended
        self.send(op, id=number, **more)
        try:
            answer = answers.get(timeout=seconds)
        except queue.Empty:
            raise TimeoutError(f"The connector's {op} did not answer within {seconds:.3g} s") from None
        finally:
            self._answers.pop(number, None)
        if isinstance(answer, JavaEnded):
            raise answer
        if "error" in answer:
            raise JavaFailure(str(answer["error"]), str(answer.get("kind", "")))
        return answer["result"]

    def kill(self, why: str) -> None:
        """Kill the process. why: the message of the `JavaEnded` error."""
        self._killed_for = self._killed_for or why
        self._process.kill()

    def close(self, seconds: float) -> None:
        """End the process by closing its input; kill it if it has not ended after `seconds`."""
        assert self._process.stdin is not None
        if self._writing.acquire(timeout=seconds):
            try:
                self._process.stdin.close()
            except BrokenPipeError:
                pass
            finally:
                self._writing.release()
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for thread in self._threads:
            thread.join(1.0)

    def _follow_log(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as lines:
            self._log.follow(lines)

    def _read(self) -> None:
        assert isinstance(self._process.stdout, BufferedReader)
        with self._process.stdout as pipe:
            while True:
                head = pipe.read(HEAD.size)
                if len(head) < HEAD.size:
                    break
                size, kind = HEAD.unpack(head)
                if kind not in (JSON, BATCH):
                    self.kill(_NO_FRAME.format(head + pipe.read1(200)))
                    break
                payload = pipe.read(size - 1)
                if len(payload) < size - 1:
                    break
                self.last_sign = time.monotonic()
                if kind == BATCH:
                    self.frames.put(decode_batch(payload))
                else:
                    self._take(json.loads(payload))
        self._end()

    def _take(self, message: Event) -> None:
        if "id" in message and "event" not in message:
            waiting = self._answers.get(message["id"])
            if waiting is not None:
                waiting.put(message)
            return
        match message["event"]:
            case "ready":
                self.ready = True
            case "alive":
                self.polling_ms = int(message["polling_ms"])
            case "metrics":
                self.metrics = message["metrics"]
            case "offsets":
                reader = self._offsets(str(message["connector"]))
                partitions: Sequence[Mapping[str, Any]] = message["partitions"]
                offsets = [None] * len(partitions) if reader is None else reader.offsets(partitions)
                self.send("answer", id=message["id"], offsets=offsets)
            case "started" | "failed" | "stopped" | "retriable":
                self.frames.put(message)
            case _:
                self._on_event(message)

    def _end(self) -> None:
        code = self._process.wait()
        self._threads[0].join(1.0)  # wait for the last lines of the log
        shutil.rmtree(self._folder, ignore_errors=True)
        if self._links:
            shutil.rmtree(self._links, ignore_errors=True)
        self.ended = JavaEnded(self._describe_end(code))
        self.frames.put(self.ended)
        for waiting in list(self._answers.values()):
            waiting.put(self.ended)
        self._on_event({"event": "ended"})

    def _describe_end(self, code: int) -> str:
        if self._killed_for:
            return self._killed_for
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


def _start(runtime: JavaRuntime, folder: str, plugin_path: str) -> subprocess.Popen[bytes]:
    """Start the process. folder: an empty working and home directory, so that the plugin finds no worker's files."""
    home = f"-Duser.home={folder}"
    command = [runtime.java, *_OPTIONS, _LOG, home, *runtime.options]
    command += ["-cp", runtime.class_path, _MAIN, plugin_path]
    with _no_memory_limit():
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            env={**{name: os.environ[name] for name in _HANDED_ON if name in os.environ}, "HOME": folder},
            start_new_session=True,  # Ctrl-C must reach the worker only, which lets its tasks commit
        )


def _plugin_path(runtime: JavaRuntime, folder: str) -> str:
    """Return the worker's plugin.path, or the folder `folder`, filled with links to the runtime's places."""
    if not runtime.places:
        return runtime.plugin_path
    for number, place in enumerate(runtime.places):  # two folders of the path may contain the same name
        os.symlink(place, os.path.join(folder, f"{number}-{os.path.basename(place)}"))
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
