"""Tracks the plugin version of each connector instance, and reports when another one is installed.

Calls to the plugin process may take seconds, so none is made on the leader's thread.
"""

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Final

from ringfence.engine.plugins import PluginHost
from ringfence.engine.plugins.errors import PluginError
from ringfence.engine.plugins.host import version_key
from ringfence.fencing.ids import ConnectorName

log = logging.getLogger(__name__)

_EVERY_SECONDS: Final = 10.0


class PluginUpgrades:
    """Thread-safe. tell(connector, text): called if another version is installed than the instance runs."""

    def __init__(self, host: PluginHost, tell: Callable[[ConnectorName, str], None]) -> None:
        self._host = host
        self._tell = tell
        self._lock = threading.Lock()
        self._running: dict[ConnectorName, tuple[Mapping[str, str], str]] = {}
        self._reported_upgrades: dict[ConnectorName, str] = {}
        self._last_state: object = None
        self._next = 0.0

    def note(self, name: ConnectorName, config: Mapping[str, str], version: str) -> None:
        """Note that an instance started with this plugin version. Reports at once if another one is installed."""
        with self._lock:
            self._running[name] = (config, version)
            self._reported_upgrades.pop(name, None)
        try:
            self._look_at(name, config, version)
        except PluginError as error:
            log.warning("Connector %s: which version of its plugin is installed is not known: %s", name, error)

    def forget(self, name: ConnectorName) -> None:
        """Note that its instance was stopped."""
        with self._lock:
            self._running.pop(name, None)
            self._reported_upgrades.pop(name, None)

    def version_of(self, name: ConnectorName, config: Mapping[str, str]) -> str | None:
        """Return the version that its instance runs; None if none runs for this plugin and version."""
        instance_config, version = self._running.get(name, (None, None))
        return version if instance_config is not None and version_key(instance_config) == version_key(config) else None

    def is_due(self, now: float) -> bool:
        """Return whether to call `look`, on another thread. True at most every ten seconds."""
        if now < self._next:
            return False
        self._next = now + _EVERY_SECONDS
        return True

    def look(self) -> None:
        """Report, once, what was installed since the last call. After an error, the next call tries again."""
        state = self._host.installed_plugins.read()
        if state == self._last_state:
            return
        with self._lock:
            running = dict(self._running)
        try:
            for name, (config, version) in running.items():
                self._look_at(name, config, version)
        except PluginError as error:
            log.warning("Which versions of plugins are installed is not known: %s", error)
        else:
            self._last_state = state

    def _look_at(self, name: ConnectorName, config: Mapping[str, str], version: str) -> None:
        upgrade = self._host.upgrade_of(config, version)
        with self._lock:
            if (
                self._running.get(name) != (config, version)
                or self._reported_upgrades.get(name) == upgrade
                or upgrade is None
            ):
                return
            self._reported_upgrades[name] = upgrade
        log.warning("Connector %s: %s", name, upgrade)
        self._tell(name, upgrade)
