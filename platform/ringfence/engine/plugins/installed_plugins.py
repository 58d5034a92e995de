"""Detects that plugins were added, removed or replaced on this worker, from the disk and without loading any."""

import json
from collections.abc import Mapping, Sequence

from ringfence.connectors.java import runtime as java_runtime
from ringfence.connectors.java.discovery import Signature, find_signature
from ringfence.connectors.plugin_environments import PluginEnvironment, State, installed_state
from ringfence.engine.plugins.environments import Environments


class InstalledPlugins:
    """The Python and Java plugins that processes with this environment find."""

    def __init__(self, environment: Mapping[str, str] | None, folders: Sequence[str] = ()) -> None:
        """folders: entries of `plugin.path`, where Python plugins have their own environments."""
        self._environment = environment
        settings = json.loads((environment or {}).get(java_runtime.ENVIRONMENT, "{}"))
        java = java_runtime.of_settings(settings)
        self._folders = () if java is None else java.folders
        self.environments = Environments(folders, environment)
        self._first = self.read()

    def read(self) -> tuple[State, Signature, tuple[PluginEnvironment, ...]]:
        """Return a state that is equal until a plugin is added, removed or replaced."""
        return installed_state(self._environment), find_signature(self._folders), self.environments.read()

    def have_changed(self) -> bool:
        """Return whether the plugins have changed since this object was created."""
        return self.read() != self._first


def describe_upgrade(plugin: str, version: str, running: str, *, in_own_process: bool) -> str:
    """Return the message with the remedy.

    in_own_process: whether no process of the worker or of another version loads it, as with Java tasks and plugin
    environments. What is loaded in the worker's own environment stays until its process ends.
    """
    remedy = (
        f"Restart the connector with its tasks to run {version}"
        if in_own_process
        else f"Restart the workers to run {version}: end each with SIGTERM; `ringfence up` and service managers "
        "start it again"
    )
    return f"{plugin} {version} is installed, {running} runs. {remedy}"
