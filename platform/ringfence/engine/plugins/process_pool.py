"""Processes for single calls. Each handles one call at a time, so a call that hangs or crashes affects no other."""

import threading
import time
from collections.abc import Callable

from ringfence.engine.plugins.errors import PluginTimeout
from ringfence.engine.plugins.process import ChildProcess
from ringfence.requests.plugin_calls import PluginCall
from ringfence.requests.request import Answer


class CallPool:
    """At most `limit` processes. One stays warm between calls; the others end when they are idle. Thread-safe.

    A warm process is replaced if a package was installed or upgraded after its start. warm: False ends each process
    after one call, with anything that a plugin may have left in it.
    """

    def __init__(self, start: Callable[[], ChildProcess], limit: int = 4, *, warm: bool = True) -> None:
        self._start = start
        self._limit = limit
        self._warm = warm
        self._idle: list[ChildProcess] = []
        self._busy: set[ChildProcess] = set()
        self._starting = 0
        self._closed = False
        self._condition = threading.Condition()

    def call(self, call: PluginCall[Answer], timeout: float) -> Answer:
        """See `ChildProcess.call`. The timeout includes the time to get a process."""
        deadline = time.monotonic() + timeout
        child = self._acquire(call.name, timeout, deadline)
        try:
            return child.call(call, max(0.001, deadline - time.monotonic()))
        finally:
            self._release(child)

    def close(self) -> None:
        """End all processes, including those with running calls."""
        with self._condition:
            self._closed = True
            children = [*self._idle, *self._busy]
            self._idle.clear()
            self._condition.notify_all()
        for child in children:
            child.close()

    def _acquire(self, name: str, timeout: float, deadline: float) -> ChildProcess:
        self._drop_outdated()
        with self._condition:
            while True:
                if self._closed:
                    raise RuntimeError("the plugin host is closed")
                while self._idle:
                    child = self._idle.pop()
                    if child.alive:
                        self._busy.add(child)
                        return child
                if len(self._busy) + self._starting < self._limit:
                    self._starting += 1
                    break
                if not self._condition.wait(max(0.0, deadline - time.monotonic())) and time.monotonic() >= deadline:
                    raise PluginTimeout(
                        f"All {self._limit} plugin processes were busy for {timeout:.3g} s, so {name} was not called. "
                        "Another connector's validation may hang; try again."
                    )
        try:
            child = self._start()
        finally:
            with self._condition:
                self._starting -= 1
        with self._condition:
            self._busy.add(child)
        return child

    def _drop_outdated(self) -> None:
        with self._condition:
            old_children = [child for child in self._idle if not child.up_to_date]
            self._idle = [child for child in self._idle if child not in old_children]
        for child in old_children:
            child.close()

    def _release(self, child: ChildProcess) -> None:
        with self._condition:
            self._busy.discard(child)
            keep = self._warm and child.alive and not self._idle and not self._closed
            if keep:
                self._idle.append(child)
            self._condition.notify()
        if not keep:
            child.close()
