"""The child's side of `process.ChildProcess`: reads calls, carries them out, writes answers.

Protocol: one JSON object per line, over two separate pipes, so that a plugin may print anything.

- Request: `{"id", "op", "lane", "args", "offsets_topics"}`; `op` and `args` are the name and the fields of a call.
- Answer: `{"id", "result"}` or `{"id", "error": {"kind", "message", "trace"}}`.
- Events: `{"event": "reconfigure", "connector"}`, `{"event": "failed", "connector", "trace"}` and `{"event": "warning",
  "connector", "text"}`.

Requests of one lane run one after another, on one thread. It ends when nothing is left to do and the handler keeps
nothing for the lane, such as a connector instance. A third descriptor is a file for the stacks of a crash.

The process ends with its host, as soon as the request pipe ends. If a plugin holds the interpreter for so long that
this is not noticed, a watchdog outside the interpreter ends the process.
"""

import base64
import faulthandler
import json
import logging
import os
import queue
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol

from ringfence import log_format
from ringfence.connectors.sdk import worker_limits
from ringfence.engine.plugins.errors import OutOfMemory, PluginError, to_wire
from ringfence.memory_limit import change_memory_limit, keep_memory_limit
from ringfence.requests.request import Answer, Request


def encode_bytes(data: bytes | bytearray | memoryview | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode("ascii")


def decode_bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


WATCHDOG_SECONDS = 30.0
HEARTBEAT_SECONDS = 5.0
_STACK = 8 << 20
"""The size of a thread's stack, for which the system reserves memory."""

Message = Mapping[str, object]
Emit = Callable[[Message], None]


@dataclass(frozen=True)
class ProcessCall(Request[Answer]):
    """A call to a child process.

    leaves_nothing: it may read the source, so its process is ended afterwards, with all that the plugin left there.
    """

    leaves_nothing: ClassVar[bool] = False


class CallHandler(Protocol):
    """What a kind of process does with its calls."""

    @property
    def subject(self) -> str:
        """Who fails, in the text of an error."""

    def answer(self, name: str, args: Message) -> object:
        """Carry out the call, and return its JSON value. Raises `MalformedRequest`."""

    def redactor(self, args: Message) -> Callable[[str], str]:
        """Return a function that hides the secrets of the call's arguments."""

    def keeps(self, lane: str) -> bool:
        """Return whether something of this lane is alive, and bound to its thread."""


class Child:
    """Serves requests until the pipe ends. memory: the bytes that calls may use, 0 for any number; setting: the worker
    setting that says so.
    """

    def __init__(
        self, requests: int, answers: int, memory: int, setting: str, handle: Callable[[Emit], CallHandler]
    ) -> None:
        self._requests = requests
        self._answers = answers
        self._memory = memory
        self._setting = setting
        self._writing = threading.Lock()
        self._lanes: dict[str, queue.SimpleQueue[dict[str, object]]] = {}
        self._counting = threading.Lock()
        self._handler = handle(self.write)

    def serve(self) -> None:
        with open(self._requests, encoding="utf-8") as lines:
            for line in lines:
                request: dict[str, object] = json.loads(line)
                worker_limits.set_offsets_topics(request["offsets_topics"])  # type: ignore[arg-type]
                self._hand_over(str(request["lane"]), request)

    def _hand_over(self, lane: str, request: dict[str, object]) -> None:
        with self._counting:
            if lane in self._lanes:
                self._lanes[lane].put(request)
                return
            requests = self._lanes[lane] = queue.SimpleQueue()
            requests.put(request)
            if self._memory:
                change_memory_limit(_STACK)  # a thread's stack is memory, too, and not the connector's
        threading.Thread(target=self._work, args=(lane, requests), name=lane, daemon=True).start()

    def _is_over(self, lane: str, requests: "queue.SimpleQueue[dict[str, object]]") -> bool:
        with self._counting:
            if not requests.empty() or self._handler.keeps(lane):
                return False
            del self._lanes[lane]
            if self._memory:
                change_memory_limit(-_STACK)
            return True

    def write(self, message: Mapping[str, object]) -> None:
        """Send one message as a line. Any thread may call it."""
        self._write_line(json.dumps(message))

    def _write_line(self, text: str) -> None:
        data = text.encode() + b"\n"
        with self._writing:
            while data:
                data = data[os.write(self._answers, data) :]

    def _work(self, lane: str, requests: "queue.SimpleQueue[dict[str, object]]") -> None:
        over = False
        while not over:
            request = requests.get()
            name, args = str(request["op"]), request["args"]
            assert isinstance(args, dict)
            try:
                result = self._handler.answer(name, args)
                answer = json.dumps({"id": request["id"], "result": result})
            except BaseException as error:  # noqa: BLE001 - the root of the thread: the error is the call's answer
                answer = json.dumps({"id": request["id"], "error": self._describe(error, name, args)})
            over = self._is_over(lane, requests)
            self._write_line(answer)

    def _describe(self, error: BaseException, op: str, args: Mapping[str, object]) -> dict[str, object]:
        redact = self._handler.redactor(args)
        if isinstance(error, PluginError):
            body = to_wire(error)
            body["message"] = redact(error.message)
            return body
        if self._memory and is_out_of_memory(error):
            text = f"{self._handler.subject} {op} needed more than {self._memory // 1024**2} MiB ({self._setting})."
            return to_wire(OutOfMemory(f"{text} Let it read less at once, or raise that worker setting."))
        if isinstance(error, SystemExit):
            message = f"The connector called sys.exit in {op}, which ends only this call."
        else:
            message = f"{self._handler.subject} {op} failed: {type(error).__name__}: {error}"
        trace = "".join(traceback.format_exception(error))
        return to_wire(PluginError(redact(message), redact(trace)))


def _heartbeat(crash: int) -> None:
    while True:
        faulthandler.dump_traceback_later(WATCHDOG_SECONDS, exit=True, file=crash)
        time.sleep(HEARTBEAT_SECONDS)


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an allocation failed, here or in an error that this one was made of, as libraries do."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, MemoryError):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def serve(handle: Callable[[Emit], CallHandler], prepare: Callable[[], None]) -> None:
    """Serve the host that started this process, as its command line says, until its pipe ends. Does not return.

    prepare: what to start before the first call, and before the memory limit applies.
    """
    requests, answers, crash, memory = (int(each) for each in sys.argv[1:5])
    faulthandler.enable(file=crash)  # the host reads it and logs it
    for fd in (requests, answers, crash):
        os.set_inheritable(fd, False)  # child processes of a plugin must not keep the pipes open
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the host decides
    log_format.describe_process(process="plugin")
    log_format.write_to_stderr(logging.INFO, "plugin %(threadName)s ")
    threading.stack_size(_STACK)
    threading.Thread(target=_heartbeat, args=(crash,), name="watchdog", daemon=True).start()
    prepare()
    child = Child(requests, answers, memory, sys.argv[5], handle)
    if memory:
        keep_memory_limit(memory)
    child.write({"event": "ready"})
    child.serve()
    os._exit(0)  # plugin threads may hang: do not wait for them
