"""The connection with a Java host, whichever process it runs in: sends requests, and dispatches the host's frames."""

import itertools
import json
import logging
import queue
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from io import BufferedReader
from typing import IO, Any, Final

from ringfence.connectors.api import ConnectorError, OffsetReader
from ringfence.connectors.api.errors import BadRecord
from ringfence.connectors.java.frames import (
    BATCH,
    ENCODED,
    HEAD,
    JSON,
    LOG,
    BatchFrame,
    decode_batch,
    decode_encoded,
    encode,
)

_NO_FRAME: Final = (
    "The Java process of the connector wrote to its standard output, which is not for logs: {!r}. Remove from the "
    "worker's java.options what lets the JVM write there, or name a file, as in -Xlog:gc:file=/tmp/gc.log"
)
_MOST_BYTES: Final = 2**31
"""Of a frame: our Java host builds one in a Java array, which is smaller."""
_MALFORMED: Final = (
    "The Java process of the connector sent a frame that cannot be read ({}). What it sent before is kept. Restart the "
    "task; if this comes again, the plugin interferes with the host"
)

Event = Mapping[str, Any]
_LEVELS: Final = {
    "TRACE": logging.DEBUG,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}
_PRINTED: Final = "java"
"""The logger of lines that are not log records."""


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


class JavaChannel(ABC):
    """One connection. Thread-safe.

    offsets(connector): returns the reader of a connector's committed offsets ("" in a task), or None; on_event: called
    on the reader's thread with the events of connector instances, and with `ended`. frames: batches, and the task's
    events.
    """

    def __init__(
        self,
        reader: BufferedReader,
        writer: IO[bytes],
        offsets: Callable[[str], OffsetReader | None],
        on_event: Callable[[Event], None] = lambda _event: None,
    ) -> None:
        self.frames: queue.SimpleQueue[BatchFrame | Event | JavaEnded] = queue.SimpleQueue()
        self.last_sign = time.monotonic()
        self.ready = False
        self.polling_ms = 0
        self.metrics: Mapping[str, float] = {}
        self.ended: JavaEnded | None = None
        self._reader = reader
        self._writer = writer
        self._offsets = offsets
        self._on_event = on_event
        self._ids = itertools.count(1)
        self._answers: dict[int, queue.SimpleQueue[Event | JavaEnded]] = {}
        self._writing = threading.Lock()
        self._log = LastLines()
        self._killed_for = ""
        self._reading = threading.Thread(target=self._read, name=f"java-{self.pid}", daemon=True)

    @property
    @abstractmethod
    def pid(self) -> int:
        """The Java process."""

    @abstractmethod
    def _kill(self, why: str) -> None:
        """Kill the process."""

    @abstractmethod
    def _wait_for_end(self) -> str:
        """Return why the process ended, in a sentence. Called when the connection has ended."""

    @abstractmethod
    def close(self, seconds: float) -> None:
        """End the connection, and with it the task; return within about `seconds`."""

    def send(self, op: str, **more: object) -> None:
        """Send one message. If the process has ended, do nothing: `frames` contains a `JavaEnded`."""
        data = encode({"op": op, **more})
        try:
            with self._writing:
                self._writer.write(data)
                self._writer.flush()
        except (ConnectionError, ValueError):  # ended, or closed
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
            raise TimeoutError(f"The connector did not answer within {max(1, round(seconds))} s ({op})") from None
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
        self._kill(self._killed_for)

    def _read(self) -> None:
        try:
            with suppress(ConnectionError), self._reader as pipe:
                while self._read_frame(pipe):
                    pass
        except Exception as error:  # noqa: BLE001 - without an end, whoever waits for a frame would wait for ever
            self.kill(_MALFORMED.format(type(error).__name__))
        self._end()

    def _read_frame(self, pipe: BufferedReader) -> bool:
        """Read and dispatch one frame. Returns False at the end of the connection."""
        head = pipe.read(HEAD.size)
        if len(head) < HEAD.size:
            return False
        size, kind = HEAD.unpack(head)
        if kind not in (JSON, BATCH, ENCODED, LOG):
            self.kill(_NO_FRAME.format(head + pipe.read1(200)))
            return False
        if not 0 < size <= _MOST_BYTES:
            raise ValueError(f"{size} bytes")
        payload = pipe.read(size - 1)
        if len(payload) < size - 1:
            return False
        self.last_sign = time.monotonic()
        if kind == BATCH:
            self.frames.put(decode_batch(payload))
        elif kind == ENCODED:
            self.frames.put(decode_encoded(payload))
        elif kind == LOG:
            self._log.take(payload)
        else:
            self._take(json.loads(payload))
        return True

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
            case "started" | "failed" | "stopped" | "retriable" | "partitions":
                self.frames.put(message)
            case _:
                self._on_event(message)

    def _end(self) -> None:
        reason = self._wait_for_end()
        self.ended = JavaEnded(self._killed_for or reason)
        self.frames.put(self.ended)
        for waiting in list(self._answers.values()):
            waiting.put(self.ended)
        self._on_event({"event": "ended"})


class LastLines:
    """Logs lines, and keeps the last ones for the error message of a process that has ended."""

    def __init__(self, most: int = 15) -> None:
        self._lines: deque[str] = deque(maxlen=most)
        self._rest = b""

    def follow(self, lines: Iterable[bytes]) -> None:
        """Log the lines until they end."""
        for raw in lines:
            level, logger, text = parse(raw.decode("utf-8", "replace").rstrip())
            self._lines.append(text)
            logging.getLogger(logger).log(level, "%s", text)

    def take(self, piece: bytes) -> None:
        """Log the lines that end in this piece of the log; keep the rest for the next piece."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        self.follow(lines)

    def __str__(self) -> str:
        return "\n".join(self._lines)


def parse(line: str) -> tuple[int, str, str]:
    """Return level, logger and text of a line."""
    try:
        record = json.loads(line)
        level, logger, text, trace = (str(record[name]) for name in ("level", "logger", "message", "trace"))
    except (ValueError, KeyError, TypeError):
        return logging.INFO, _PRINTED, line
    return _LEVELS.get(level, logging.INFO), logger or _PRINTED, f"{text}\n{trace}".rstrip() if trace else text
