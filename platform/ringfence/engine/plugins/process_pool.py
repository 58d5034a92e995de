"""Processes for single calls. Each handles one call at a time, so a call that hangs or crashes affects no other."""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from ringfence.engine.fair_places import FairPlaces, NoPlace, account
from ringfence.engine.plugins.call_server import ProcessCall
from ringfence.engine.plugins.errors import PluginTimeout
from ringfence.engine.plugins.process import ChildProcess
from ringfence.fencing.clock import Deadline
from ringfence.requests.request import Answer

log = logging.getLogger(__name__)

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
                    log.exception("No process could be started in advance")
                    return
                with self._lock:
                    keep = not self._closed
                    if keep:
                        self._idle.append(child)
                if not keep:
                    child.close()
