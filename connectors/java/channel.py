"""The connection with a Java host, whichever process it runs in: sends requests, and dispatches the host's frames.

A frame is the length of the rest (u32, big endian), kind (one byte), payload. Kind J is a JSON object, kind L a piece
of the log, kinds B and R are batches; host/ColumnPacker.java and host/BatchPacker.java document their layouts. Frames
are decoded by pure functions: bytes in, values out.
"""

import itertools
import json
import logging
import queue
import struct
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BufferedReader
from itertools import accumulate, pairwise
from typing import IO, Any, Final

from ringfence.connectors.api import ConnectorError, OffsetReader
from ringfence.connectors.api.errors import BadRecord
from ringfence.connectors.api.records import EncodedBatch, EncodedBatches, MixedBatch, RawHeaders
from ringfence.connectors.java.connection_trouble import ConnectionTrouble

JSON: Final = ord("J")
BATCH: Final = ord("B")
ENCODED: Final = ord("R")
LOG: Final = ord("L")
HEAD: Final = struct.Struct(">IB")

_COMMIT, _ABORT, _KEYS, _PARTITIONS, _TIMES, _HEADERS, _TOPICS = 1, 2, 4, 8, 16, 32, 64
_FIXED: Final = struct.Struct("<QIIII")
_NUMBERED: Final = struct.Struct("<QIII")
_LENGTH: Final = struct.Struct("<i")
_ENCODED: Final = struct.Struct("<iIIIqqI")


@dataclass(frozen=True, slots=True)
class BatchFrame:
    """A batch. number: counts the task's batches; commits, aborts: whether the connector ends its transaction here."""

    number: int
    batch: MixedBatch
    commits: bool = False
    aborts: bool = False


def encode(message: Mapping[str, object]) -> bytes:
    """Return the frame of a JSON message."""
    data = json.dumps(message).encode()
    return HEAD.pack(len(data) + 1, JSON) + data


def decode_batch(buffer: bytes) -> BatchFrame:
    """Decode a batch. Raises ValueError or struct.error for an invalid buffer."""
    with _errors():
        return _decode_batch(buffer)


def _decode_batch(buffer: bytes) -> BatchFrame:
    number, records, flags, skipped, letters = _FIXED.unpack_from(buffer, 0)
    reader = _Reader(buffer, _FIXED.size)
    names = [reader.blob().decode() for _ in range(reader.number())]
    offsets = [(partition, offset) for partition, offset in json.loads(reader.blob())]
    topics: str | list[str] = names[0] if names else ""
    if flags & _TOPICS:
        topics = [names[each] for each in reader.column(records, "i")]
    partitions = reader.column(records, "i") if flags & _PARTITIONS else None
    times = reader.column(records, "q") if flags & _TIMES else None
    value_sizes = reader.column(records, "i")
    key_sizes = reader.column(records, "i") if flags & _KEYS else None
    sets = reader.column(records, "i") if flags & _HEADERS else None
    values = reader.cut(value_sizes)
    keys = None if key_sizes is None else reader.cut(key_sizes)
    headers = None if sets is None else _headers(reader, sets)
    if reader.at != len(buffer):
        raise ValueError(f"a batch of {len(buffer)} bytes ends at {reader.at}")
    batch = MixedBatch(offsets, topics, values, keys, partitions, times, headers, skipped=skipped, letters=letters)
    return BatchFrame(number, batch, bool(flags & _COMMIT), bool(flags & _ABORT))


def decode_encoded(buffer: bytes) -> BatchFrame:
    """Decode record batches. Raises ValueError or struct.error for an invalid buffer."""
    with _errors():
        return _decode_encoded(buffer)


@contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except (LookupError, TypeError, RecursionError) as error:
        raise ValueError(f"a batch is malformed ({type(error).__name__})") from error


def _decode_encoded(buffer: bytes) -> BatchFrame:
    number, flags, skipped, letters = _NUMBERED.unpack_from(buffer, 0)
    reader = _Reader(buffer, _NUMBERED.size)
    offsets = [(partition, offset) for partition, offset in json.loads(reader.blob())]
    batches = [reader.record_batch() for _ in range(reader.number())]
    if reader.at != len(buffer):
        raise ValueError(f"record batches of {len(buffer)} bytes end at {reader.at}")
    encoded = EncodedBatches(offsets, batches, skipped=skipped, letters=letters)
    return BatchFrame(number, encoded, bool(flags & _COMMIT), bool(flags & _ABORT))


def _headers(reader: "_Reader", which: Sequence[int]) -> list[RawHeaders | None]:
    sets: list[RawHeaders | None] = [
        [(reader.blob().decode(), reader.optional()) for _ in range(reader.number())] for _ in range(reader.number())
    ]
    sets.append(None)  # for -1, no headers
    return [sets[each] for each in which]


class _Reader:
    def __init__(self, buffer: bytes, at: int) -> None:
        self._buffer = buffer
        self._view = memoryview(buffer)
        self.at = at

    def number(self) -> int:
        (value,) = _LENGTH.unpack_from(self._buffer, self.at)
        self.at += 4
        return int(value)

    def blob(self) -> bytes:
        content = self.optional()
        if content is None:
            raise ValueError("null in place of a value")
        return content

    def optional(self) -> bytes | None:
        size = self.number()
        if size < 0:
            return None
        self.at += size
        if self.at > len(self._buffer):
            raise ValueError("the batch is truncated")
        return self._buffer[self.at - size : self.at]

    def column(self, records: int, kind: str) -> list[int]:
        end = self.at + records * (8 if kind == "q" else 4)
        numbers: list[Any] = self._view[self.at : end].cast(kind).tolist()  # type: ignore[call-overload]
        self.at = end
        return numbers

    def record_batch(self) -> EncodedBatch:
        topic = self.blob().decode()
        partition, records, size, crc, first_ms, newest_ms, length = _ENCODED.unpack_from(self._buffer, self.at)
        start = self.at + _ENCODED.size
        self.at = start + length
        if self.at > len(self._buffer):
            raise ValueError("a record batch is truncated")
        return EncodedBatch(topic, partition, records, size, crc, first_ms, newest_ms, self._view[start : self.at])

    def cut(self, sizes: Sequence[int]) -> list[bytes | None]:
        buffer = self._buffer
        if min(sizes, default=0) >= 0:
            ends = list(accumulate(sizes, initial=self.at))
            self.at = ends[-1]
            return [buffer[start:end] for start, end in pairwise(ends)]
        blobs: list[bytes | None] = []
        for size in sizes:
            if size < 0:
                blobs.append(None)
            else:
                blobs.append(buffer[self.at : self.at + size])
                self.at += size
        return blobs


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
    events. connections: what its log says of connections that fail.
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
        self.connections = ConnectionTrouble()
        self._log = LastLines(self.connections.note)
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
    """Logs lines, and keeps the last ones for the error message of a process that has ended. note: gets the level and
    the text of each.
    """

    def __init__(self, note: Callable[[int, str], object] = lambda _level, _text: None, most: int = 15) -> None:
        self._note = note
        self._lines: deque[str] = deque(maxlen=most)
        self._rest = b""

    def follow(self, lines: Iterable[bytes]) -> None:
        """Log the lines until they end."""
        for raw in lines:
            level, logger, text = parse(raw.decode("utf-8", "replace").rstrip())
            self._lines.append(text)
            self._note(level, text)
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
