"""Which plugin environment of this worker a connector runs in."""

from collections.abc import Mapping, Sequence

from ringfence.connectors.common_settings import CONNECTOR_CLASS, PLUGIN_VERSION
from ringfence.connectors.installed import State, find_distributions, installed_state
from ringfence.connectors.plugin_environments import (
    GROUP,
    PluginEnvironment,
    choose_environment,
    find_environments,
    names_of,
)
from ringfence.requests.plugin_calls import PluginCall
from ringfence.requests.request import Answer


class Environments:
    """Those in the given entries of `plugin.path`, as they are now. Thread-safe.

    variables: of the processes whose connectors the environments stand beside; their short names stay theirs.
    """

    def __init__(self, folders: Sequence[str], variables: Mapping[str, str] | None = None) -> None:
        self._folders = folders
        self._variables = variables
        self._taken: tuple[State, frozenset[str]] | None = None

    def read(self) -> tuple[PluginEnvironment, ...]:
        """All of them. Equal as long as none came, went or was changed."""
        return find_environments(self._folders)

    def find(self, name: str, requirement: str | None) -> PluginEnvironment | None:
        """The one that holds the newest version of the connector that is asked for; None for connectors outside."""
        environments = self.read()
        return choose_environment(environments, name, requirement, self._read_taken()) if environments else None

    def find_for(self, config: Mapping[str, str | None]) -> PluginEnvironment | None:
        """The same, by a connector's configuration."""
        return self.find((config.get(CONNECTOR_CLASS) or "").strip(), config.get(PLUGIN_VERSION))

    def find_for_call(self, call: PluginCall[Answer]) -> PluginEnvironment | None:
        """The same, by the plugin or the configuration that a call is about; None for calls about neither."""
        config: Mapping[str, str] = getattr(call, "config", {})
        name = str(getattr(call, "plugin", config.get(CONNECTOR_CLASS) or ""))
        version: str | None = getattr(call, "version", config.get(PLUGIN_VERSION))
        return self.find(name.strip(), version)

    def _read_taken(self) -> frozenset[str]:
        state = installed_state(self._variables)
        known = self._taken
        if known is None or known[0] != state:
            points = (each for dist in find_distributions(self._variables) for each in dist.entry_points)
            names = frozenset(name for each in points if each.group == GROUP for name in names_of(each))
            known = self._taken = (state, names)
        return known[1]
