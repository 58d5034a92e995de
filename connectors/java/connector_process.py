"""The Java processes of a plugin process. They start on first use, and again after a failure or changed plugins.

If several versions of a plugin are installed, there is one process for each selection of versions in use.
"""

import logging
import threading
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ringfence.connectors.api import ConnectorError, OffsetReader
from ringfence.connectors.java import runtime
from ringfence.connectors.java.discovery import JavaPlugin, Signature, find_places, find_signature
from ringfence.connectors.java.process import JavaProcess

if TYPE_CHECKING:
    from ringfence.connectors.java.connector import JavaSourceConnector

log = logging.getLogger(__name__)

_lock = threading.Lock()
_current: list["ConnectorProcess"] = []


class ConnectorProcess(JavaProcess):
    """A Java process, with the plugins' jars at its start (signature). instances: its connectors by name."""

    def __init__(self, java: runtime.JavaRuntime, signature: tuple[runtime.JavaRuntime, object]) -> None:
        self.signature = signature
        self.answers: dict[str, Mapping[str, Any]] = {}
        self.instances: dict[str, JavaSourceConnector] = {}
        super().__init__(java, self._reader_of, self._tell)

    def _reader_of(self, connector: str) -> OffsetReader | None:
        instance = self.instances.get(connector)
        return None if instance is None else instance.context.offset_reader

    def _tell(self, event: Mapping[str, Any]) -> None:
        if event["event"] == "ended":
            for each in list(self.instances.values()):
                each.on_event(event)  # it requests a reconfiguration, which starts it in a new process
            return
        instance = self.instances.get(str(event.get("connector")))
        if instance is not None:
            instance.on_event(event)


def get(plugin: JavaPlugin | None = None) -> ConnectorProcess:
    """Return the process for this version of a plugin; without a plugin, the process for the newest versions.

    Raises `ConnectorError` if this worker runs no Java connectors.
    """
    java = runtime.current()
    if java is None:
        raise ConnectorError(f"This worker runs no Java connectors: add folders to its {runtime.PLUGIN_PATH}")
    with _lock:
        jars = find_signature(java.folders)
        java = replace(java, places=_places(tuple(java.folders), plugin, jars))
        signature = (java, jars)
        for other in [each for each in _current if each.ended is not None or each.signature[1] != signature[1]]:
            _current.remove(other)
            _let_go(other)
        process = next((each for each in _current if each.signature == signature), None)
        if process is None:
            process = ConnectorProcess(java, signature)
            _current.append(process)
        return process


@lru_cache(maxsize=64)
def _places(folders: tuple[str, ...], plugin: JavaPlugin | None, _jars: Signature) -> tuple[str, ...]:
    """Cache `find_places`, which reads the folders, as long as their jars do not change."""
    return find_places(folders, plugin)


def release(process: ConnectorProcess) -> None:
    """Note that an instance in the process has stopped. A replaced process ends with its last instance."""
    with _lock:
        if process not in _current:
            _let_go(process)


def close() -> None:
    """End all processes, with the connectors in them."""
    with _lock:
        while _current:
            _current.pop().close(1.0)


def _let_go(process: ConnectorProcess) -> None:
    if not process.instances:
        process.close(0.5)
