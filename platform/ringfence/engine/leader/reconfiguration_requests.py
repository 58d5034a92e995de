"""Finds connectors that need new task configurations, or a restart, without a request of a user.

A task asks for new task configurations when some of its source partitions are complete. With
`config.action.reload=restart`, a connector is restarted when a file of its config provider has changed. That only
compares time and size of the files. Only the plugin's and the task's process read their values.
"""

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ringfence.connectors.config_providers import ConfigProviders
from ringfence.fencing.ids import ConnectorName, TaskId
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.connector_state import ConnectorState, TargetState
from ringfence.fencing.topics.status import StatusState, TaskStatus

KEY = "config.action.reload"
_EVERY_SECONDS = 2.0

Stamp = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class _WatchedFiles:
    """start: the files' stamps when the connector last started; last: those of the last check."""

    config_offset: int
    start: Stamp
    last: Stamp


class ConfigReloads:
    """The stamps of one term. It misses earlier changes, but whatever starts in the term reads the new values."""

    def __init__(self, settings: Mapping[str, str], every_s: float = _EVERY_SECONDS) -> None:
        """settings: the worker's; every_s: the time between two checks."""
        self._providers = ConfigProviders(settings)
        self._every_s = every_s
        self._next = 0.0
        self._files: dict[ConnectorName, _WatchedFiles] = {}
        self._state = ClusterState()
        self._names: set[ConnectorName] = set()
        """The connectors whose configuration refers to something."""

    def due(self, state: ClusterState, now: float) -> list[ConnectorName]:
        """Return the connectors to restart. now: monotonic.

        Two checks in a row must find the same files, since one may be missing or incomplete while it is written.
        """
        if now < self._next:
            return []
        self._next = now + self._every_s
        for name in state.changes_since(self._state):
            refers = any("${" in value for value in (state.connector(name).config or {}).values())
            (self._names.add if refers else self._names.discard)(name)
        self._state = state
        before, self._files = self._files, {}
        return [name for name in sorted(self._names) if self._has_changed(state.connector(name), before.get(name))]

    def _has_changed(self, connector: ConnectorState, before: _WatchedFiles | None) -> bool:
        config = connector.config or {}
        if connector.target is TargetState.STOPPED or config.get(KEY, "restart").strip().lower() != "restart":
            return False
        files = self._providers.files(config)
        stamp = _stamp(files)
        if not files:
            return False
        offset = connector.config_offset
        if before is None or before.config_offset != offset:
            self._files[connector.name] = _WatchedFiles(offset, stamp or (), stamp or ())
            return False
        settled = stamp is not None and stamp == before.last
        changed = settled and stamp != before.start
        start_stamp = stamp if changed and stamp is not None else before.start
        self._files[connector.name] = _WatchedFiles(offset, start_stamp, before.last if stamp is None else stamp)
        return changed


def _stamp(files: Iterable[Path]) -> Stamp | None:
    """Return time and size of each file; None if one of them is missing."""
    try:
        stats = [os.stat(file) for file in files]
    except OSError:
        return None
    return tuple((one.st_mtime_ns, one.st_ino, one.st_size) for one in stats)


_AT_REST: Final = frozenset({TargetState.STOPPED, TargetState.PAUSED})
_PAUSES: Final = (1.0, 4.0, 15.0)
"""Seconds until a request without effect is passed on again."""


@dataclass(frozen=True, slots=True)
class _Request:
    """reconfigure_ms: identifies it; passed: how often it was passed on; due: when it is passed on again."""

    reconfigure_ms: int
    passed: int = 0
    due: float = 0.0


class TaskRequests:
    """Passes each request on to `ask`, which returns whether it was accepted.

    A request that leads to no new generation is repeated a few times: the commit that it is about may not be visible
    yet (its markers come after the broker's answer, and any open transaction hides it), and the connector may not have
    answered. A new leader repeats the requests of its predecessor. Both are harmless: equal task configurations change
    nothing.
    """

    def __init__(self, ask: Callable[[ConnectorState], bool]) -> None:
        self._ask = ask
        self._requests: dict[ConnectorName, dict[int, _Request]] = {}

    def note(
        self, state: ClusterState, status: StatusState, now: float, names: Collection[ConnectorName] | None = None
    ) -> set[ConnectorName]:
        """Take in the newest state. Requests of older generations are answered already. now: a monotonic clock's.

        names: the connectors that the states are about, None for all. Return those with requests to be repeated.
        """
        waiting = {task.connector for task, report in status.tasks.items() if self._pass_on(state, task, report, now)}
        for name in list(self._requests) if names is None else names:
            if (requests := self._requests.get(name)) is not None:
                for number in [number for number in requests if TaskId(name, number) not in status.tasks]:
                    del requests[number]
                if not requests:
                    del self._requests[name]
        return waiting

    def _pass_on(self, state: ClusterState, task: TaskId, report: TaskStatus, now: float) -> bool:
        """Pass on the task's request if it is due. Return whether that is to be repeated."""
        connector = state.connector(task.connector)
        if not report.reconfigure_ms or connector.commit is None or report.generation != connector.commit.generation:
            return False
        request = self._requests.get(task.connector, {}).get(task.task)
        if request is None or request.reconfigure_ms != report.reconfigure_ms:
            request = _Request(report.reconfigure_ms)
        if request.passed > len(_PAUSES) or connector.config is None or connector.target in _AT_REST:
            return False
        if now >= request.due and self._ask(connector):
            pause = _PAUSES[min(request.passed, len(_PAUSES) - 1)]
            request = _Request(request.reconfigure_ms, request.passed + 1, now + pause)
            self._requests.setdefault(task.connector, {})[task.task] = request
        return request.passed <= len(_PAUSES)
