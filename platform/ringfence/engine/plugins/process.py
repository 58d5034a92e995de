"""The host's side of the plugin processes: starts them, sends calls, kills one that is late.

For single calls there is a pool: each process handles one call at a time, so a call that hangs or crashes affects no
other.
"""

import itertools
import json
import logging
import os
import select
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, cast

from ringfence.connectors.plugin_environments import installed_state
from ringfence.engine.fair_places import FairPlaces, NoPlace, account
from ringfence.engine.plugins.call_server import ProcessCall
from ringfence.engine.plugins.errors import (
    OutOfMemory,
    PluginCrash,
    PluginError,
    PluginStarting,
    PluginTimeout,
    from_wire,
)
from ringfence.engine.spark.connector_limits import without_ours
from ringfence.fencing.clock import Deadline
from ringfence.memory_limit import CALL_MEMORY_LIMIT
from ringfence.requests.request import Answer

logger = logging.getLogger(__name__)

CHILD = "ringfence.engine.plugins.process_main"
_SECONDS_TO_START = 60.0
"""On a busy machine it may take long until a process reads its first request. Killing it would not make the next one
faster.
"""
_SECONDS_TO_END = 1.0
_MOST_STACKS = 10_000
_MOST_ANSWER = 64 << 20
"""In characters: twice what the task configurations of a connector may have. The answer is parsed in the host."""


class _Pending:
    """One running call."""

    def __init__(self) -> None:
        self.arrival = threading.Event()
        self.result: object = None
        self.error: PluginError | None = None

    def fail(self, error: PluginError) -> None:
        self.error = error
        self.arrival.set()


class ChildProcess:
    """One process, for any number of concurrent calls. Thread-safe.

    on_event: called with each event message. on_end: called once, when the process has ended for any reason. Both run
    on this object's reader thread and must return at once. environment: variables in addition to `inherited`, which are
    this process's own without the platform's settings by default. offsets_topics: returns those of all connectors; sent
    with each call. memory: the bytes that its calls may use in addition to what the process needs at its start, None
    for any number; memory_setting: the worker setting that says so. module: what it runs.
    """

    def __init__(
        self,
        on_event: Callable[[dict[str, object]], None] | None = None,
        on_end: Callable[["ChildProcess"], None] | None = None,
        environment: Mapping[str, str] | None = None,
        offsets_topics: Callable[[], Collection[str]] = tuple,
        *,
        memory: int | None = None,
        memory_setting: str = CALL_MEMORY_LIMIT,
        module: str = CHILD,
        inherited: Mapping[str, str] | None = None,
    ) -> None:
        self._offsets_topics = offsets_topics
        self._on_event = on_event
        self._on_end = on_end
        self._ids = itertools.count(1)
        self._pending: dict[int, _Pending] = {}
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._ended = False
        self._environment = dict(environment or {})
        self._plugin_state = installed_state(self._environment)
        self._why: str | None = None
        self._ready = threading.Event()
        self._start_time = time.monotonic()
        requests_read, self._requests = os.pipe()
        self._answers, answers_write = os.pipe()
        self._crash = tempfile.TemporaryFile()  # noqa: SIM115 - closed when the process has ended
        crash = self._crash.fileno()
        os.set_blocking(self._requests, False)
        try:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    "-m",
                    module,
                    *(str(number) for number in (requests_read, answers_write, crash, memory or 0)),
                    memory_setting,
                ],
                stdin=subprocess.DEVNULL,
                stdout=2,  # plugins' prints go to the log
                pass_fds=(requests_read, answers_write, crash),
                env={**(without_ours(os.environ) if inherited is None else inherited), **(environment or {})},
            )
        except OSError:
            os.close(self._requests)
            os.close(self._answers)
            self._crash.close()
            raise
        finally:
            os.close(requests_read)
            os.close(answers_write)
        threading.Thread(target=self._read, name=f"plugin-process-{self.pid}", daemon=True).start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def up_to_date(self) -> bool:
        """Return whether no package was installed, upgraded or removed since the process started."""
        return self._plugin_state == installed_state(self._environment)

    @property
    def alive(self) -> bool:
        """Return whether calls are possible: the process has not ended, and is not being ended."""
        return not self._ended and self._why is None

    def call(self, call: ProcessCall[Answer], timeout: float, lane: str = "call") -> Answer:
        """Return the call's answer. timeout: in seconds. A late call kills the process (`PluginTimeout`), unless the
        process is still starting: then it remains for the next call (`PluginStarting`).

        Raises `PluginCrash` if the process ended in the meantime, else the error that the plugin process returned.
        """
        deadline = time.monotonic() + timeout
        number, answer = next(self._ids), _Pending()
        with self._lock:
            if not self.alive:
                raise PluginCrash(f"The plugin process had ended before the call of {call.name}.", alone=False)
            self._pending[number] = answer
        topics = sorted(self._offsets_topics())
        body = {"id": number, "op": call.name, "lane": lane, "args": call.to_wire(), "offsets_topics": topics}
        complete = self._send(json.dumps(body, default=dict).encode() + b"\n", deadline)
        if not complete or not answer.arrival.wait(max(0.0, deadline - time.monotonic())):
            with self._lock:
                self._pending.pop(number, None)
            if not answer.arrival.is_set() and self._is_starting():
                raise PluginStarting(
                    "The plugin process is still starting, since this machine is busy. Try again soon."
                )
            if not answer.arrival.is_set():
                self.kill(f"a call of {call.name} was not answered in time")
                raise PluginTimeout(
                    f"The connector did not answer within {max(1, round(timeout))} s ({call.name}). Its source cannot "
                    "be reached, or this machine is busy: try again."
                )
        if answer.error is not None:
            if isinstance(answer.error, OutOfMemory):
                self.kill(f"a call of {call.name} took all memory that it may have")
            raise answer.error
        return cast("Answer", answer.result)

    def _is_starting(self) -> bool:
        return not self._ready.is_set() and time.monotonic() - self._start_time < _SECONDS_TO_START

    def kill(self, why: str) -> None:
        """End the process at once. why: the reason in the errors of the other running calls."""
        with self._lock:
            if self._ended:
                return
            self._why = self._why or why
        logger.warning("Killing plugin process %d: %s", self.pid, why)
        self._process.kill()

    def close(self) -> None:
        """End the process: close its pipe, and send a signal if that does not help."""
        if self._writing.acquire(timeout=0.2):
            try:
                self._close_requests()
            finally:
                self._writing.release()
        else:
            self.kill("it does not read its requests")
        try:
            self._process.wait(_SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            self.kill("it did not end by itself")
            self._process.wait()

    def _send(self, data: bytes, deadline: float) -> bool:
        """Write the line. Returns False if the deadline passed first. The reader notices a broken pipe."""
        if not self._writing.acquire(timeout=max(0.0, deadline - time.monotonic())):
            return False
        try:
            poller = select.poll()
            while data:
                if self._requests < 0:
                    return True
                poller.register(self._requests, select.POLLOUT)
                if not poller.poll(max(0.0, deadline - time.monotonic()) * 1000):
                    return False
                data = data[os.write(self._requests, data) :]
        except BrokenPipeError:
            pass
        finally:
            self._writing.release()
        return True

    def _read(self) -> None:
        with open(self._answers, encoding="utf-8") as lines:
            while line := lines.readline(_MOST_ANSWER):
                if len(line) == _MOST_ANSWER:
                    self.kill("its answer was too long")
                    break
                try:
                    message: dict[str, object] = json.loads(line)
                except ValueError:
                    break  # the process ended within a line
                if "event" in message:
                    self._notify(message)
                else:
                    self._deliver(message)
        self._end()

    def _notify(self, message: dict[str, object]) -> None:
        if message["event"] == "ready":
            self._ready.set()
            return
        if self._on_event is None:
            return
        try:
            self._on_event(message)
        except Exception:  # an error in the host must not lose the answers of all calls
            logger.exception("The handler of plugin events failed")

    def _deliver(self, message: dict[str, object]) -> None:
        number = message["id"]
        assert isinstance(number, int)
        with self._lock:
            answer = self._pending.pop(number, None)
        if answer is None:
            return  # the caller has given up
        error = message.get("error")
        if isinstance(error, dict):
            answer.fail(from_wire(error))
        else:
            answer.result = message.get("result")
            answer.arrival.set()

    def _end(self) -> None:
        """Handle the end of the answer pipe: the process is ending, too."""
        try:
            code = self._process.wait(_SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        with self._lock:
            self._ended = True
            pending = list(self._pending.values())
            self._pending.clear()
        how = f"killed, as {self._why}" if self._why else _exit_text(code)
        alone = len(pending) == 1 and self._why is None
        stacks = self._stacks()
        if stacks is not None:
            logger.error("Plugin process %d ended (%s): %s", self.pid, how, stacks)
        for answer in pending:
            message = f"The plugin process ended during the call ({how})."
            answer.fail(PluginCrash(message, f"{message} {stacks}" if stacks else None, alone=alone))
        with self._writing:
            self._close_requests()
        if self._on_end is not None:
            self._on_end(self)

    def _stacks(self) -> str | None:
        """Return what the process wrote when it crashed."""
        with self._crash as file:
            file.seek(0)
            return file.read().decode(errors="replace").strip()[:_MOST_STACKS] or None

    def _close_requests(self) -> None:
        if self._requests >= 0:
            os.close(self._requests)
            self._requests = -1


def _exit_text(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"


_REST_S: Final = 5.0
"""How long an account whose call has ended a process waits for that place: a new process takes a second of CPU time."""


class CallPool:
    """At most `limit` processes, half of them for one account. Thread-safe.

    Some stay warm between calls; the others end when they are idle. A warm process is replaced if a package was
    installed or upgraded after its start. warm: how many; 0 ends each process after one call, with anything that a
    plugin may have left in it. refill: whether a process that was killed is replaced at once.
    """

    def __init__(
        self, start: Callable[[], ChildProcess], limit: int = 4, *, warm: int = 1, refill: bool = False
    ) -> None:
        self._start = start
        self._warm = warm
        self._refill = refill
        self._places = FairPlaces(limit)
        self._idle: list[ChildProcess] = []
        self._busy: set[ChildProcess] = set()
        self._closed = False
        self._lock = threading.Lock()
        self._filling = threading.Lock()

    def call(self, call: ProcessCall[Answer], timeout: float) -> Answer:
        """See `ChildProcess.call`. The timeout includes the time to get a process."""
        deadline = Deadline.after(timeout)
        with self.lease(call.name, deadline) as child:
            return child.call(call, max(0.001, deadline.remaining))

    @contextmanager
    def lease(self, name: str, deadline: Deadline) -> Iterator[ChildProcess]:
        """Occupy a process within the block. name: of the call, for errors. Raises `PluginTimeout`."""
        who = self._enter(name, deadline)
        rest_s = 0.0
        try:
            child = self._acquire()
            try:
                yield child
            finally:
                rest_s = 0.0 if child.alive else _REST_S
                self._release(child)
        finally:
            self._places.leave(who, rest_s=rest_s)

    def close(self) -> None:
        """End all processes, including those with running calls."""
        with self._lock:
            self._closed = True
            children = [*self._idle, *self._busy]
            self._idle.clear()
        for child in children:
            child.close()

    def _enter(self, name: str, deadline: Deadline) -> str | None:
        who, seconds = account.get(), deadline.remaining
        try:
            self._places.enter(who, deadline)
        except NoPlace as busy:
            if busy.own:
                raise PluginTimeout(
                    f"{self._places.each} calls of your account, as many as it may have on one worker, went on for "
                    f"{seconds:.3g} s, so {name} was not called. Wait for their answers, and try again."
                ) from busy
            raise PluginTimeout(
                f"All {self._places.total} plugin processes were busy for {seconds:.3g} s, so {name} was not called. "
                "Another connector's validation may hang; try again."
            ) from busy
        return who

    def _acquire(self) -> ChildProcess:
        self._drop_outdated()
        with self._lock:
            if self._closed:
                raise RuntimeError("the plugin host is closed")
            while self._idle:
                child = self._idle.pop()
                if child.alive:
                    self._busy.add(child)
                    return child
        child = self._start()
        with self._lock:
            self._busy.add(child)
        return child

    def _drop_outdated(self) -> None:
        with self._lock:
            old_children = [child for child in self._idle if not child.up_to_date]
            self._idle = [child for child in self._idle if child not in old_children]
        for child in old_children:
            child.close()

    def _release(self, child: ChildProcess) -> None:
        with self._lock:
            self._busy.discard(child)
            keep = child.alive and len(self._idle) < self._warm and not self._closed
            if keep:
                self._idle.append(child)
            dead = not child.alive
        if not keep:
            child.close()
        if dead and self._refill:
            threading.Thread(target=self.fill, name="warm-processes", daemon=True).start()

    def fill(self) -> None:
        """Start as many processes as stay warm, for the next calls. If that fails, those start their own."""
        with self._filling:
            while True:
                with self._lock:
                    missing = not self._closed and len(self._idle) + len(self._busy) < self._warm
                if not missing:
                    return
                try:
                    child = self._start()
                except OSError:
                    logger.exception("No process could be started in advance")
                    return
                with self._lock:
                    keep = not self._closed
                    if keep:
                        self._idle.append(child)
                if not keep:
                    child.close()
