"""Whether plugins came, went or were replaced on this worker: read from the disk, without loading any."""

import json
from collections.abc import Mapping

from ringfence.connectors.installed import State, installed_state
from ringfence.connectors.java import runtime as java_runtime
from ringfence.connectors.java.discovery import Signature, find_signature


class InstalledPlugins:
    """As the processes with this environment find them, of Python and of Java."""

    def __init__(self, environment: Mapping[str, str] | None) -> None:
        self._environment = environment
        told = json.loads((environment or {}).get(java_runtime.ENVIRONMENT, "{}"))
        java = java_runtime.of_settings(told)
        self._folders = () if java is None else java.folders
        self._first = self.read()

    def read(self) -> tuple[State, Signature]:
        """Equal as long as no plugin came, went or was replaced."""
        return installed_state(self._environment), find_signature(self._folders)

    def have_changed(self) -> bool:
        """Since this object was made."""
        return self.read() != self._first


def describe_upgrade(plugin: str, installed: str, running: str, *, is_java: bool) -> str:
    """With the remedy: what is loaded in Python stays as long as its process, while Java tasks have one each."""
    remedy = (
        f"Restart the connector with its tasks to run {installed}"
        if is_java
        else f"Restart the workers to run {installed}: end each with SIGTERM; `ringfence up` and service managers "
        "start it again"
    )
    return f"{plugin} {installed} is installed, {running} runs. {remedy}"
