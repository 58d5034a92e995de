"""The entry point to plugin code: validate, key infos, offset checks, and connector instances, each with a deadline."""

import os
from collections.abc import Callable, Collection, Mapping, Sequence

from ringfence.connectors.common_settings import CONNECTOR_CLASS, PLUGIN_VERSION
from ringfence.connectors.java import runtime as java_runtime
from ringfence.engine.plugins.calls import CheckIsJava, Offsets, PluginCall
from ringfence.engine.plugins.environments import (
    InstalledPlugins,
    PluginLists,
    ProcessGroups,
    choose_version,
    describe_upgrade,
    names_in,
)
from ringfence.engine.plugins.errors import OffsetsNeeded, PluginError
from ringfence.engine.plugins.process import ChildProcess
from ringfence.engine.spark.connector_limits import few_threads
from ringfence.fencing.clock import Deadline
from ringfence.memory_limit import CALL_MEMORY_LIMIT, INSTANCES_MEMORY_LIMIT, memory_limit
from ringfence.requests.request import Answer, Refusal

CALL_SECONDS = 10.0
JAVA_CALL_SECONDS = 30.0
"""If there are Java connectors: the first call of a process waits for its JVM."""


def version_key(config: Mapping[str, str]) -> tuple[str, str]:
    """Return what determines a configuration's plugin version: connector class and requested version."""
    return config.get(CONNECTOR_CLASS, "").strip(), config.get(PLUGIN_VERSION, "")


class PluginHost:
    """One object per worker; thread-safe. Timeouts are in seconds.

    Every method raises a `PluginError`: `PluginTimeout` for a call that was late (its process is killed, the next call
    gets a new one), `PluginCrash` for a process that ended, `UnknownPlugin` and `BadRequest` for the client's mistakes.

    - on_reconfigure(connector): an instance requested new task configurations.
    - on_failed(connector, error): an instance raised an error, or could not be started again after its process ended.
    - on_warning(connector, text): an instance's warning for users. All three must return at once and not raise.
    - offsets_topics: returns the connectors' offsets topics, which are sent to the plugin process with each call.
    - call_seconds: the default timeout where no Java connector is installed. folders: entries of `plugin.path` with
      plugin environments.
    - call_memory: the bytes that a call may use, None for any number. instances_memory: those of all connector
      instances together.
    - environment: variables for plugin processes, in addition to this process's own without the platform's settings.
    """

    def __init__(
        self,
        on_reconfigure: Callable[[str], None] = lambda _name: None,
        on_failed: Callable[[str, PluginError], None] = lambda _name, _error: None,
        *,
        call_processes: int = 4,
        call_seconds: float = CALL_SECONDS,
        environment: Mapping[str, str] | None = None,
        on_warning: Callable[[str, str], None] = lambda _name, _text: None,
        offsets_topics: Callable[[], Collection[str]] = tuple,
        folders: Sequence[str] = (),
        call_memory: int | None = memory_limit({}, CALL_MEMORY_LIMIT),
        instances_memory: int | None = memory_limit({}, INSTANCES_MEMORY_LIMIT),
    ) -> None:
        self._on_reconfigure = on_reconfigure
        self._on_failed = on_failed
        self._on_warning = on_warning
        self._offsets_topics = offsets_topics
        self._environment = environment
        self._call_memory = call_memory
        self._instances_memory = instances_memory
        self.installed_plugins = InstalledPlugins(environment, folders)
        self._environments = self.installed_plugins.environments
        self._call_seconds = call_seconds
        self.known_versions: dict[tuple[str, str], str] = {}
        self._without_offsets: set[tuple[str, str]] = set()
        self._groups = ProcessGroups(
            self._start_process, self._start_instance_process, self._note_failure, call_processes
        )
        self._lists = PluginLists(self._groups, self._environments)

    @property
    def call_seconds(self) -> float:
        """The default timeout."""
        java = self.installed_plugins.have_jars()
        return max(self._call_seconds, JAVA_CALL_SECONDS) if java else self._call_seconds

    def _limit(self, timeout: float | None) -> float:
        return self.call_seconds if timeout is None else timeout

    def ask(self, call: PluginCall[Answer], timeout: float | None = None) -> Answer:
        """Have a process with the call's plugin answer it."""
        with self._groups.use(self._environments.find_for_call(call)) as group:
            return group.ask(call, self._limit(timeout))

    def plugins(self, timeout: float | None = None) -> list[dict[str, object]]:
        """Return `{"class", "type", "version", "versions", "names", "documentation", "environment"}` of each connector.

        `names`: all valid values of connector.class. `versions`: all installed ones, newest first. `environment`: the
        folder of the newest version if it has its own environment.
        """
        return self._lists.read(self._limit(timeout)).plugins

    def class_of(self, plugin: str, timeout: float | None = None) -> str | None:
        """Return the class that a name in `connector.class` means; None if it is not installed."""
        matches = (one for one in self.plugins(timeout) if plugin in names_in(one))
        return next((str(one["class"]) for one in matches), None)

    def version_of(self, config: Mapping[str, str]) -> str | None:
        """Return the plugin version that a configuration runs; None if it is not installed. It is requested once."""
        key = version_key(config)
        if key not in self.known_versions:
            for one in self.plugins():
                if key[0] in names_in(one):
                    version = choose_version(key[1], one)
                    if version is not None:
                        self.known_versions[key] = version
        return self.known_versions.get(key)

    def upgrade_of(self, config: Mapping[str, str], running: str) -> str | None:
        """Return a message if a start would now choose another version of the plugin than `running`, else None."""
        if not self.installed_plugins.have_changed():
            return None
        plugin, requirement = version_key(config)
        for one in self.plugins():
            if plugin in names_in(one):
                alone = bool(one["java"]) or one["environment"] is not None
                version = choose_version(requirement, one) if alone else str(one["version"])
                if version is not None and version != running:
                    return describe_upgrade(plugin, version, running, in_own_process=alone)
        return None

    def find_broken_plugins(self, timeout: float | None = None) -> dict[str, str]:
        """Return installed connectors that cannot be loaded, with the reason."""
        return self._lists.read(self._limit(timeout)).problems

    def close_unused(self) -> None:
        """End the processes of plugin environments that have not been used for a while."""
        self._groups.close_unused()

    def check_permission(self, class_name: str, limit: Deadline, *, java: bool) -> None:
        """Raise `Refusal` (403) for a Java plugin without the permission, and `UnknownPlugin` for an unknown one.

        Java plugins need a permission of their own: `file.roots` does not apply to their code. The worker decides which
        class is a Java plugin, since only it knows the contents of `plugin.path`. java: whether the user has the
        permission, as the web process says.
        """
        if java or not class_name or java_runtime.ENVIRONMENT not in (self._environment or {}):
            return
        if self.ask(CheckIsJava(class_name), limit.slice(self.call_seconds)):
            raise Refusal(
                403,
                f"{class_name} is a Java plugin: it reads files and opens connections as the worker's user. To "
                "configure, validate, preview or try out such a connector, you need the permission java-plugins. Ask "
                "an administrator for it",
            )

    def start_connector(
        self,
        name: str,
        config: Mapping[str, str],
        offsets: Offsets | None = (),
        timeout: float | None = None,
        *,
        grant: Mapping[str, object] | None = None,
    ) -> str:
        """Start the connector's instance, and stop a running one first. Returns its plugin's version.

        offsets: what its offset reader returns; None if they were not read, which raises `OffsetsNeeded` for a
        connector that reads them. grant: the value of the record with the topics that it may write to, None for all but
        internal ones.
        """
        with self._groups.use(self._environments.find_for(config)) as group:
            before = self._groups.settle(name, group)
            if before is not None:
                before.live.stop(name, self._limit(timeout))
            key = version_key(config)
            try:
                start = group.live.start(name, config, offsets, self._limit(timeout), grant)
            except OffsetsNeeded:
                self._without_offsets.discard(key)
                raise
        self.known_versions[key] = start["version"]
        (self._without_offsets.discard if start["reads_offsets"] else self._without_offsets.add)(key)
        return start["version"]

    def reads_offsets(self, config: Mapping[str, str]) -> bool:
        """Return whether the connector may read its source offsets: true until a start of this plugin and version has
        shown that it declares not to.
        """
        return version_key(config) not in self._without_offsets

    def task_configs(
        self, name: str, max_tasks: int, offsets: Offsets | None = None, timeout: float | None = None
    ) -> list[dict[str, str]]:
        """Return at most `max_tasks` task configurations of a started connector, each with its `task.class`.

        After a `PluginTimeout` or `PluginCrash` the instance is gone: start it again.
        """
        return self._groups.home_of(name).live.task_configs(name, max_tasks, offsets, self._limit(timeout))

    def stop_connector(self, name: str, timeout: float | None = None) -> None:
        """Stop the connector's instance, if there is one. It is gone even after an error."""
        self._groups.home_of(name).live.stop(name, self._limit(timeout))

    def running_connectors(self) -> list[str]:
        """Return the connectors with an instance, running or being started again."""
        return self._groups.running()

    def close(self) -> None:
        """End all plugin processes."""
        self._groups.close()

    def _start_instance_process(
        self, variables: Mapping[str, str], on_end: Callable[[ChildProcess], None]
    ) -> ChildProcess:
        return ChildProcess(
            self._event,
            on_end,
            self._variables(variables),
            self._offsets_topics,
            memory=self._instances_memory,
            memory_setting=INSTANCES_MEMORY_LIMIT,
        )

    def _start_process(self, variables: Mapping[str, str]) -> ChildProcess:
        return ChildProcess(
            environment={**few_threads(os.environ), **self._variables(variables)},
            offsets_topics=self._offsets_topics,
            memory=self._call_memory,
        )

    def _variables(self, more: Mapping[str, str]) -> Mapping[str, str]:
        """Return a process's variables. One for a plugin environment has only its connectors, and no Java."""
        variables = dict(self._environment or {})
        if more:
            variables.pop(java_runtime.ENVIRONMENT, None)
        return {**variables, **more}

    def _note_failure(self, name: str, error: PluginError) -> None:
        """Pass on that an instance could not be started again. One of another version than before, which reads its
        offsets, gets them where the leader starts it for new task configurations.
        """
        if isinstance(error, OffsetsNeeded):
            self._on_reconfigure(name)
        else:
            self._on_failed(name, error)

    def _event(self, message: dict[str, object]) -> None:
        if message.get("event") == "reconfigure":
            self._on_reconfigure(str(message["connector"]))
        elif message.get("event") == "failed":
            trace = str(message["trace"])
            self._on_failed(str(message["connector"]), PluginError(trace.partition("\n")[0], trace))
        elif message.get("event") == "warning":
            self._on_warning(str(message["connector"]), str(message["text"]))
