"""`config.action.reload=restart`: finds connectors to restart, because a file of a config provider has changed.

It only compares time and size of the files. Only the plugin's and the task's process read their values.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ringfence.connectors.config_providers import ConfigProviders
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.topics.connector_state import ConnectorState, TargetState

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
