"""The plugin environments of this worker, and the processes of each: no process loads the plugins of two environments.

Processes of the worker's own environment live as long as the worker; those of a plugin environment while it is used.
"""

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from ringfence.connectors.common_settings import CONNECTOR_CLASS, PLUGIN_VERSION
from ringfence.connectors.java import runtime as java_runtime
from ringfence.connectors.java import versions
from ringfence.connectors.java.discovery import Signature, find_signature
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
from ringfence.engine.plugins.call_server import ProcessCall
from ringfence.engine.plugins.calls import ListPlugins, PluginCall
from ringfence.engine.plugins.errors import PluginError
from ringfence.engine.plugins.instance_supervisor import InstanceSupervisor
from ringfence.engine.plugins.process import CallPool, ChildProcess
from ringfence.requests.request import Answer

StartProcess = Callable[[Mapping[str, str]], ChildProcess]
StartInstanceProcess = Callable[[Mapping[str, str], Callable[[ChildProcess], None]], ChildProcess]

_PREVIEW_PROCESSES: Final = 2
_UNUSED_SECONDS: Final = 60.0


class ProcessGroup:
    """The processes of one environment."""

    def __init__(
        self,
        start: Callable[[], ChildProcess],
        start_for_instances: Callable[[Callable[[ChildProcess], None]], ChildProcess],
        on_failed: Callable[[str, PluginError], None],
        call_processes: int,
    ) -> None:
        self._calls = CallPool(start, call_processes)
        # Separate, so that no validation waits for a preview, and a preview leaves nothing of the plugin running.
        self._previews = CallPool(start, _PREVIEW_PROCESSES, warm=0)
        self.live = InstanceSupervisor(start_for_instances, on_failed)
        self.users = 0
        self.used_at = time.monotonic()

    def ask(self, call: ProcessCall[Answer], timeout: float, *, leave_nothing: bool = False) -> Answer:
        """Make a call. leave_nothing: whether the process ends afterwards."""
        pool = self._previews if leave_nothing or call.leaves_nothing else self._calls
        return pool.call(call, timeout)

    def close(self) -> None:
        """End all of its processes."""
        self.live.close()
        self._calls.close()
        self._previews.close()


class ProcessGroups:
    """One object per worker. Thread-safe."""

    def __init__(
        self,
        start: StartProcess,
        start_for_instances: StartInstanceProcess,
        on_failed: Callable[[str, PluginError], None],
        call_processes: int,
    ) -> None:
        """Both functions start a process with the given variables, in addition to those of all plugin processes."""
        self._start = start
        self._start_for_instances = start_for_instances
        self._on_failed = on_failed
        self._call_processes = call_processes
        self._lock = threading.Lock()
        self._own = self._make({})
        self._others: dict[PluginEnvironment, ProcessGroup] = {}
        self._homes: dict[str, ProcessGroup] = {}

    @contextmanager
    def use(self, environment: PluginEnvironment | None) -> Iterator[ProcessGroup]:
        """Return the group of an environment, None for the worker's own. It is not closed while it is used."""
        if environment is None:
            yield self._own
            return
        with self._lock:
            group = self._others.get(environment)
            if group is None:
                group = self._others[environment] = self._make(environment.as_variables())
            group.users += 1
        try:
            yield group
        finally:
            with self._lock:
                group.users -= 1
                group.used_at = time.monotonic()

    def settle(self, connector: str, group: ProcessGroup) -> ProcessGroup | None:
        """Move the connector's instance to this group. Returns its previous group if that was another one."""
        with self._lock:
            before = self._homes.get(connector)
            self._homes[connector] = group
        return before if before is not group else None

    def home_of(self, connector: str) -> ProcessGroup:
        """Return the group with the connector's instance."""
        with self._lock:
            return self._homes.get(connector, self._own)

    def running(self) -> list[str]:
        """Return the connectors with an instance, in any group."""
        return [name for group in self._all() for name in group.live.names()]

    def close_unused(self) -> None:
        """End the processes of plugin environments that have not been used for a while."""
        with self._lock:
            end = time.monotonic() - _UNUSED_SECONDS
            environments = [
                environment
                for environment, group in self._others.items()
                if not group.users and group.used_at < end and not group.live.names()
            ]
            groups = [self._others.pop(environment) for environment in environments]
            self._homes = {name: group for name, group in self._homes.items() if group not in groups}
        for group in groups:
            group.close()

    def close(self) -> None:
        """End all processes."""
        for group in self._all():
            group.close()

    def _all(self) -> list[ProcessGroup]:
        with self._lock:
            return [self._own, *self._others.values()]

    def _make(self, variables: Mapping[str, str]) -> ProcessGroup:
        return ProcessGroup(
            lambda: self._start(variables),
            lambda on_end: self._start_for_instances(variables, on_end),
            self._on_failed,
            self._call_processes,
        )


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


Entry = dict[str, object]
"""See `PluginHost.plugins`."""


@dataclass(frozen=True, slots=True)
class PluginList:
    """The plugins. problems: by entry point or folder, why an installed connector cannot run."""

    plugins: list[Entry]
    problems: dict[str, str]


class PluginLists:
    """Requests the lists of the plugin processes. Thread-safe."""

    def __init__(self, groups: ProcessGroups, environments: Environments) -> None:
        self._groups = groups
        self._environments = environments
        self._lists: dict[PluginEnvironment, Entry] = {}

    def read(self, timeout: float) -> PluginList:
        """Return the current list. timeout: of each call, in seconds. Raises PluginError."""
        with self._groups.use(None) as group:
            own = group.ask(ListPlugins(), timeout)
        environments = self._environments.read()
        usable = [each for each in environments if each.plugins]
        answers = {each: self._list(each, timeout) for each in usable}
        self._lists = answers
        problems = {Path(each.folder).name: each.problem for each in environments if each.problem is not None}
        for answer in (*answers.values(), own):
            problems.update(cast("dict[str, str]", answer["broken"]))
        others = ((each, _plugins_in(answer)) for each, answer in answers.items())
        return PluginList(join_lists(_plugins_in(own), others), problems)

    def _list(self, environment: PluginEnvironment, timeout: float) -> Entry:
        """Return an environment's list. It is requested once, in a process that then ends, since it does not change."""
        entry = self._lists.get(environment)
        if entry is not None:
            return entry
        with self._groups.use(environment) as group:
            return group.ask(ListPlugins(), timeout, leave_nothing=True)


def _plugins_in(answer: Entry) -> list[Entry]:
    return cast("list[Entry]", answer["plugins"])


def join_lists(own: Sequence[Entry], others: Iterable[tuple[PluginEnvironment, Sequence[Entry]]]) -> list[Entry]:
    """Return each class once, as its newest version describes it, with all versions and their environments.

    A connector outside of plugin environments keeps its short names.
    """
    own_names = {name for entry in own for name in names_in(entry)}
    all_entries = [{**entry, "environment": None} for entry in own]
    for environment, entries in others:
        for entry in entries:
            names = [name for name in names_in(entry) if name == entry["class"] or name not in own_names]
            all_entries.append({**entry, "names": names, "environment": environment.folder})
    by_class: dict[object, list[Entry]] = {}
    for entry in all_entries:
        by_class.setdefault(entry["class"], []).append(entry)
    return [_newest(same) for same in by_class.values()]


def names_in(entry: Entry) -> list[str]:
    """Return all names that are valid in connector.class."""
    return cast("list[str]", entry["names"])


def versions_in(entry: Entry) -> list[str]:
    """Return all installed versions, the newest first."""
    return cast("list[str]", entry["versions"])


def choose_version(requirement: str, entry: Entry) -> str | None:
    """Return the newest installed version that `connector.plugin.version` accepts; None if there is none."""
    try:
        return versions.choose(requirement, versions_in(entry), str)
    except ValueError:  # validation reports it
        return None


def _newest(same: Sequence[Entry]) -> Entry:
    if len(same) == 1:
        return same[0]
    # Unless a version is requested, the plugin in an environment runs, not the one in the packages of the worker.
    several = [entry for entry in same if entry["environment"] is not None]
    newest = max(several, key=lambda entry: versions.order(str(entry["version"])))
    all_versions = {version for entry in same for version in versions_in(entry)}
    names = sorted({name for entry in same for name in names_in(entry)})
    return {**newest, "names": names, "versions": sorted(all_versions, key=versions.order, reverse=True)}


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

    def have_jars(self) -> bool:
        """Return whether there are Java plugins."""
        return bool(find_signature(self._folders))

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
