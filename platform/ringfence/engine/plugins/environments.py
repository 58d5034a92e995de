"""Finds the plugin environment of this worker in which a connector runs."""

from collections.abc import Mapping, Sequence

from ringfence.connectors.common_settings import CONNECTOR_CLASS, PLUGIN_VERSION
from ringfence.connectors.plugin_environments import (
    GROUP,
    PluginEnvironment,
    State,
    choose_environment,
    find_distributions,
    find_environments,
    installed_state,
    names_of,
)
from ringfence.requests.plugin_calls import PluginCall
from ringfence.requests.request import Answer


class Environments:
    """The current environments in these entries of `plugin.path`. Thread-safe.

    variables: of the processes outside of plugin environments, whose connectors keep their short names.
    """

    def __init__(self, folders: Sequence[str], variables: Mapping[str, str] | None = None) -> None:
        self._folders = folders
        self._variables = variables
        self._cache: tuple[State, frozenset[str]] | None = None

    def read(self) -> tuple[PluginEnvironment, ...]:
        """Return all environments. Equal until one is added, removed or changed."""
        return find_environments(self._folders)

    def find(self, name: str, requirement: str | None) -> PluginEnvironment | None:
        """Return the one with the newest accepted version of the connector; None if the connector is
        outside of them.
        """
        environments = self.read()
        return choose_environment(environments, name, requirement, self._read_taken()) if environments else None

    def find_for(self, config: Mapping[str, str | None]) -> PluginEnvironment | None:
        """Do the same for a connector's configuration."""
        return self.find((config.get(CONNECTOR_CLASS) or "").strip(), config.get(PLUGIN_VERSION))

    def find_for_call(self, call: PluginCall[Answer]) -> PluginEnvironment | None:
        """Do the same for the plugin or configuration in a call; None if it has neither."""
        config: Mapping[str, str] = getattr(call, "config", {})
        name = str(getattr(call, "plugin", config.get(CONNECTOR_CLASS) or ""))
        version: str | None = getattr(call, "version", config.get(PLUGIN_VERSION))
        return self.find(name.strip(), version)

    def _read_taken(self) -> frozenset[str]:
        state = installed_state(self._variables)
        cache = self._cache
        if cache is None or cache[0] != state:
            points = (each for dist in find_distributions(self._variables) for each in dist.entry_points)
            names = frozenset(name for each in points if each.group == GROUP for name in names_of(each))
            cache = self._cache = (state, names)
        return cache[1]
