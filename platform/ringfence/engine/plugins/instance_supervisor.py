"""Keeps connector instances alive in the instance process, and starts them again if that process ends.

The cause of such an end is a call that timed out, or the only call that was running. Otherwise it is unknown, and each
affected call is tried again. An instance that was the cause is not started again; the host's caller is notified by
the call's own error or by `on_failed`. The next start of that connector has to wait (`CrashPauses`).

The instances share the process's memory, too (`connectors.memory.limit`). A call that finds none left ends the process,
but need not be the one that has taken it. So it is tried again, in a new process and beside no other such call.

Each end of the process costs a new process, and a new start of everybody's instances. So the pause grows for that
connector, and for all connectors of its account from the third end on: else new names would bring new attempts.
"""

import itertools
import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from ringfence.engine.plugins.calls import MakeTaskConfigs, Offsets, PluginCall, StartInstance, StopInstance, pairs_of
from ringfence.engine.plugins.errors import OutOfMemory, PluginCrash, PluginError, PluginStarting, PluginTimeout
from ringfence.engine.plugins.instances import InstanceStart
from ringfence.engine.plugins.process import ChildProcess
from ringfence.fencing.backoff import Backoff
from ringfence.requests.request import Answer

_CRASH_BACKOFF: Final = Backoff(2, 300)
_FORGIVEN_SECONDS: Final = 900.0
_FREE_OF_ACCOUNT: Final = 2


@dataclass(slots=True)
class _Ends:
    times: int = 0
    last: float = 0.0
    until: float = 0.0


class CrashPauses:
    """The ends of the last minutes by connector and account. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._connectors: dict[str, _Ends] = {}
        self._accounts: dict[str, _Ends] = {}

    def note(self, connector: str, account: str) -> None:
        """Note that an instance has ended its process. account: "" if unknown."""
        with self._lock:
            now = self._clock()
            _count(self._connectors, connector, 0, now)
            if account:
                _count(self._accounts, account, _FREE_OF_ACCOUNT, now)

    def check(self, connector: str, account: str) -> None:
        """Raise `PluginError` if an instance of the connector must not start yet."""
        with self._lock:
            now = self._clock()
            own, all_of_account = self._connectors.get(connector, _Ends()), self._accounts.get(account, _Ends())
        if now < own.until:
            who, ends = f"connector {connector}", own
        elif now < all_of_account.until:
            who, ends = f"account {account}", all_of_account
        else:
            return
        raise PluginError(
            f"Connector {connector} is not started for {ends.until - now:.0f} s: instances of {who} have ended their "
            f"process {ends.times} times within a few minutes, the last one {now - ends.last:.0f} s ago. It is tried "
            "again by itself"
        )


def _count(by_name: dict[str, _Ends], who: str, free: int, now: float) -> None:
    for name in [name for name, ends in by_name.items() if now - ends.last > _FORGIVEN_SECONDS]:
        del by_name[name]
    ends = by_name.setdefault(who, _Ends())
    ends.times += 1
    ends.last, ends.until = now, now + _CRASH_BACKOFF.pause(ends.times - free)


logger = logging.getLogger(__name__)

RESTART_TIMEOUT_SECONDS = 30.0
_MOST_WITHOUT_MEMORY = 3
_BACKOFF = Backoff(0.5, 30)
"""Seconds before a process is started again, by the number of ends within the last minute."""


@dataclass
class _Instance:
    config: Mapping[str, str]
    offsets: Offsets | None
    grant: Mapping[str, object] | None
    token: int
    child: ChildProcess | None
    """Its process; None while it waits to be started again."""
    without_memory: int = 0
    """How many of its last starts found no memory."""

    @property
    def account(self) -> str:
        """Who saved its configuration; "" if nobody's grant says so."""
        return str((self.grant or {}).get("user", ""))


class InstanceSupervisor:
    """Instances by connector name. Thread-safe; timeouts in seconds."""

    def __init__(
        self,
        start_process: Callable[[Callable[[ChildProcess], None]], ChildProcess],
        on_failed: Callable[[str, PluginError], None],
    ) -> None:
        """start_process(on_end): starts an instance process. on_failed(name, error): an instance could not continue."""
        self._start_process = start_process
        self._on_failed = on_failed
        self._instances: dict[str, _Instance] = {}
        self._child: ChildProcess | None = None
        self._ends: list[float] = []
        self._closed = False
        self._tokens = itertools.count(1)
        self._condition = threading.Condition()
        self._second_try = threading.Lock()
        self._pauses = CrashPauses()
        self._supervisor: threading.Thread | None = None

    def start(
        self,
        name: str,
        config: Mapping[str, str],
        offsets: Offsets | None,
        timeout: float,
        grant: Mapping[str, object] | None = None,
    ) -> InstanceStart:
        """Start the connector's instance; a running one with this name is stopped first.

        offsets: as in `InstanceRunner.start`. Raises `PluginError` also if it has to wait, because instances of its
        connector or account ended their process.
        """
        deadline = time.monotonic() + timeout
        with self._condition:
            self._instances.pop(name, None)
            copy = None if offsets is None else list(offsets)
            instance = _Instance(dict(config), copy, grant, next(self._tokens), None)
        self._pauses.check(name, instance.account)
        child, start = self._call(self._process, _start(name, instance), name, instance.account, deadline)
        with self._condition:
            instance.child = child if child.alive else None
            self._instances[name] = instance
            self._condition.notify_all()
        return start

    def task_configs(self, name: str, max_tasks: int, offsets: Offsets | None, timeout: float) -> list[dict[str, str]]:
        """Return the instance's task configurations. offsets: if given, they replace those that the instance sees."""
        deadline = time.monotonic() + timeout
        call = MakeTaskConfigs(name, max_tasks, None if offsets is None else pairs_of(offsets))
        with self._condition:
            instance = self._instances.get(name)
        account = "" if instance is None else instance.account
        try:
            return self._call(lambda: self._process_of(name, deadline, offsets), call, name, account, deadline)[1]
        except (PluginTimeout, PluginCrash, OutOfMemory):
            self._forget(name)
            raise

    def stop(self, name: str, timeout: float) -> None:
        """Stop the instance, if there is one. It is gone afterwards, even if its `stop` raises or hangs."""
        with self._condition:
            instance = self._instances.pop(name, None)
            token = next(self._tokens)
        if instance is not None and instance.child is not None:
            try:
                instance.child.call(StopInstance(name, token), timeout, lane=name)
            except PluginCrash as error:
                logger.warning("Connector %s was stopped with its process: %s", name, error)

    def names(self) -> list[str]:
        """Return the connectors with an instance, running or about to be started again."""
        with self._condition:
            return list(self._instances)

    def close(self) -> None:
        """End the process with all its instances. Their `stop` is not called, since it may hang."""
        with self._condition:
            self._closed = True
            child, self._child = self._child, None
            self._instances.clear()
            self._condition.notify_all()
        if child is not None:
            child.close()

    def _call(
        self, process: Callable[[], ChildProcess], call: PluginCall[Answer], name: str, account: str, deadline: float
    ) -> tuple[ChildProcess, Answer]:
        """Make the call, as `_call_twice`, and note if it has ended the process."""
        try:
            return self._call_twice(process, call, name, deadline)
        except PluginError as error:
            if _has_ended_process(error):
                self._pauses.note(name, account)
            raise

    def _call_twice(
        self, process: Callable[[], ChildProcess], call: PluginCall[Answer], name: str, deadline: float
    ) -> tuple[ChildProcess, Answer]:
        """Make the call, and where another one may have ended its process, again: exclusively, so that the culprit is
        found. Return the process, too.
        """
        child = process()
        try:
            return child, child.call(call, max(0.001, deadline - time.monotonic()), lane=name)
        except PluginCrash as error:
            if error.alone:
                raise
        except OutOfMemory:
            pass
        if not self._second_try.acquire(timeout=max(0.0, deadline - time.monotonic())):
            raise PluginStarting(
                f"The plugin process ended during {call.name}, and there was no time for a second try."
            )
        try:
            for last_try in (False, False, True):
                child = process()
                try:
                    return child, child.call(call, max(0.001, deadline - time.monotonic()), lane=name)
                except PluginCrash as error:
                    if error.alone or last_try or time.monotonic() > deadline:
                        raise
            raise AssertionError("unreachable")
        finally:
            self._second_try.release()

    def _process(self) -> ChildProcess:
        """Return the instance process; start one if there is none."""
        with self._condition:
            if self._closed:
                raise RuntimeError("the plugin host is closed")
            self._notice_end()
            if self._child is None:
                self._child = self._start_process(self._on_end)
            return self._child

    def _process_of(self, name: str, deadline: float, offsets: Offsets | None) -> ChildProcess:
        """Return the instance's process; wait while the instance is being started again."""
        with self._condition:
            while True:
                self._notice_end()
                instance = self._instances.get(name)
                if instance is None:
                    raise PluginError(f"Connector {name} has no running instance: start it first.")
                if offsets is not None:
                    instance.offsets = list(offsets)
                if instance.child is not None:
                    return instance.child
                if not self._condition.wait(max(0.0, deadline - time.monotonic())) and time.monotonic() >= deadline:
                    raise PluginStarting(f"Connector {name} is being started again after its process ended; try again.")

    def _forget(self, name: str) -> None:
        with self._condition:
            self._instances.pop(name, None)

    def _on_end(self, _child: ChildProcess) -> None:
        with self._condition:
            self._notice_end()

    def _notice_end(self) -> None:
        """If the process has ended, forget it, and let the supervisor start its instances again. Call it with the lock
        held.
        """
        if self._child is None or self._child.alive or self._closed:
            return
        self._child = None
        self._ends = [*(end for end in self._ends if end > time.monotonic() - 60), time.monotonic()]
        for instance in self._instances.values():
            instance.child = None
        if self._supervisor is None:
            self._supervisor = threading.Thread(target=self._supervise, name="plugin-instances", daemon=True)
            self._supervisor.start()
        self._condition.notify_all()

    def _supervise(self) -> None:
        """Start waiting instances again, one by one."""
        while True:
            with self._condition:
                self._condition.wait_for(lambda: self._closed or self._waiting() is not None)
                if self._closed:
                    return
                if self._child is None:
                    pause = _BACKOFF.pause(len(self._ends) - 1)  # no pause after the first end
                    self._condition.wait_for(lambda: self._closed, pause)
                waiting = self._waiting()
            if waiting is not None and not self._closed:
                self._start_again(*waiting)

    def _waiting(self) -> tuple[str, _Instance] | None:
        return next(((name, each) for name, each in self._instances.items() if each.child is None), None)

    def _start_again(self, name: str, instance: _Instance) -> None:
        try:
            child = self._process()
            child.call(_start(name, instance), RESTART_TIMEOUT_SECONDS, lane=name)
        except PluginError as error:
            if not _is_cause(instance, error):
                return  # another instance was: this one is tried again
            with self._condition:
                mine = self._instances.get(name) is instance
                if mine:
                    del self._instances[name]
            if _has_ended_process(error):
                self._pauses.note(name, instance.account)
            if mine:
                logger.warning("Connector %s could not be started again: %s", name, error)
                self._on_failed(name, error)
        except (OSError, RuntimeError):
            logger.exception("The plugin process could not be started")
            with self._condition:
                self._ends.append(time.monotonic())
        else:
            with self._condition:
                mine = self._instances.get(name) is instance
                if mine and child.alive:
                    instance.child = child
                    instance.without_memory = 0
                self._condition.notify_all()
            if not mine:  # stopped or started again in the meantime
                self._stop_leftover(child, name, instance)

    def _stop_leftover(self, child: ChildProcess, name: str, instance: _Instance) -> None:
        try:
            child.call(StopInstance(name, instance.token), RESTART_TIMEOUT_SECONDS, lane=name)
        except PluginError as error:
            logger.warning("Connector %s was stopped while it was being started again: %s", name, error)


def _has_ended_process(error: PluginError) -> bool:
    """Return whether the call with this error has ended its process, by all that is known."""
    if isinstance(error, PluginCrash):
        return error.alone
    return isinstance(error, OutOfMemory | PluginTimeout) and not isinstance(error, PluginStarting)


def _is_cause(instance: _Instance, error: PluginError) -> bool:
    """Return whether the instance's start has ended the process, by all that is known."""
    if isinstance(error, OutOfMemory):
        instance.without_memory += 1
        return instance.without_memory >= _MOST_WITHOUT_MEMORY
    return not isinstance(error, PluginCrash) or error.alone


def _start(name: str, instance: _Instance) -> StartInstance:
    offsets = None if instance.offsets is None else pairs_of(instance.offsets)
    return StartInstance(name, dict(instance.config), offsets, instance.token, instance.grant)
