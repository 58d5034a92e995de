"""Finds connectors that need new task configurations, or a restart, without a request of a user.

A task asks for new task configurations when some of its source partitions are complete. With
`config.action.reload=restart`, a connector is restarted when a file of its config provider has changed. That only
compares time and size of the files. Only the plugin's and the task's process read their values.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ringfence.connectors.config_providers import ConfigProviders
from ringfence.fencing.ids import ConnectorName, TaskId
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.connector_state import ConnectorState, TargetState
from ringfence.fencing.topics.status import StatusState

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

    def due(self, connectors: Iterable[ConnectorState], now: float) -> list[ConnectorName]:
        """Return the connectors to restart. now: monotonic.

        Two checks in a row must find the same files, since one may be missing or incomplete while it is written.
        """
        if now < self._next:
            return []
        self._next = now + self._every_s
        before, self._files = self._files, {}
        return [connector.name for connector in connectors if self._has_changed(connector, before.get(connector.name))]

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
        self._requests: dict[TaskId, _Request] = {}

    def note(self, state: ClusterState, status: StatusState, now: float) -> None:
        """Take in the newest state. Requests of older generations are answered already. now: a monotonic clock's."""
        for task, report in status.tasks.items():
            connector = state.connector(task.connector)
            if (
                not report.reconfigure_ms
                or connector.commit is None
                or report.generation != connector.commit.generation
            ):
                continue
            request = self._requests.get(task)
            if request is None or request.reconfigure_ms != report.reconfigure_ms:
                request = _Request(report.reconfigure_ms)
            if request.passed > len(_PAUSES) or now < request.due:
                continue
            if connector.config is None or connector.target in _AT_REST:
                continue
            if self._ask(connector):
                pause = _PAUSES[min(request.passed, len(_PAUSES) - 1)]
                self._requests[task] = _Request(request.reconfigure_ms, request.passed + 1, now + pause)
        self._requests = {task: request for task, request in self._requests.items() if task in status.tasks}
