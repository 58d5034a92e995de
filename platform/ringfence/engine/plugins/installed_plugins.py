"""Whether plugins came, went or were replaced on this worker: read from the disk, without loading any."""

import json
from collections.abc import Mapping, Sequence

from ringfence.connectors.installed import State, installed_state
from ringfence.connectors.java import runtime as java_runtime
from ringfence.connectors.java.discovery import Signature, find_signature
from ringfence.connectors.plugin_environments import PluginEnvironment
from ringfence.engine.plugins.environments import Environments


class InstalledPlugins:
    """As the processes with this environment find them, of Python and of Java."""

    def __init__(self, environment: Mapping[str, str] | None, folders: Sequence[str] = ()) -> None:
        """folders: entries of `plugin.path`, where Python plugins have environments of their own."""
        self._environment = environment
        told = json.loads((environment or {}).get(java_runtime.ENVIRONMENT, "{}"))
        java = java_runtime.of_settings(told)
        self._folders = () if java is None else java.folders
        self.environments = Environments(folders, environment)
        self._first = self.read()

    def read(self) -> tuple[State, Signature, tuple[PluginEnvironment, ...]]:
        """Equal as long as no plugin came, went or was replaced."""
        return installed_state(self._environment), find_signature(self._folders), self.environments.read()

    def have_changed(self) -> bool:
        """Since this object was made."""
        return self.read() != self._first


def describe_upgrade(plugin: str, installed: str, running: str, *, in_own_process: bool) -> str:
    """With the remedy. in_own_process: its version is loaded by no process of the worker or of another version, as with
    Java tasks and plugin environments; what is loaded in the worker's own environment stays as long as its process."""
    remedy = (
        f"Restart the connector with its tasks to run {installed}"
        if in_own_process
        else f"Restart the workers to run {installed}: end each with SIGTERM; `ringfence up` and service managers "
        "start it again"
    )
    return f"{plugin} {installed} is installed, {running} runs. {remedy}"
