"""The entry point to plugin code: validate, key infos, offset checks, and connector instances, each with a deadline."""

import os
from collections.abc import Callable, Collection, Mapping, Sequence

from ringfence.connectors.common_settings import CONNECTOR_CLASS, PLUGIN_VERSION
from ringfence.connectors.java import runtime as java_runtime
from ringfence.engine.plugins.environments import (
    InstalledPlugins,
    PluginLists,
    choose_version,
    describe_upgrade,
    names_in,
)
from ringfence.engine.plugins.errors import PluginError
from ringfence.engine.plugins.instance_supervisor import Offsets, pairs_of
from ringfence.engine.plugins.process import ChildProcess
from ringfence.engine.plugins.process_groups import ProcessGroups
from ringfence.engine.spark.connector_limits import few_threads
from ringfence.memory_limit import CALL_MEMORY_LIMIT, INSTANCES_MEMORY_LIMIT, memory_limit
from ringfence.requests.plugin_calls import (
    CheckIsJava,
    CheckOffsets,
    ConvertDeadLetters,
    CountRecords,
    ExamineSource,
    FindSlot,
    PluginCall,
    PreviewRecords,
    ReadCommonKeys,
    ReadConfigKeys,
    ReadExactlyOnceSupport,
    ReadGuarantee,
    ReadRecordPositions,
    TryChain,
    ValidateConfig,
)  # fmt: skip
from ringfence.requests.request import Answer

CALL_SECONDS = 10.0
JAVA_CALL_SECONDS = 30.0
"""If Java connectors may run: the first call of a process waits for its JVM."""


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
    - call_seconds: the default timeout. folders: entries of `plugin.path` with plugin environments.
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
        self.call_seconds = call_seconds
        self.known_versions: dict[tuple[str, str], str] = {}
        self._groups = ProcessGroups(self._start_process, self._start_instance_process, on_failed, call_processes)
        self._lists = PluginLists(self._groups, self._environments)

    def _limit(self, timeout: float | None) -> float:
        return self.call_seconds if timeout is None else timeout

    def _ask(self, call: PluginCall[Answer], timeout: float | None) -> Answer:
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

    def config_keys(
        self, plugin: str, timeout: float | None = None, *, common: bool = False, version: str | None = None
    ) -> list[dict[str, object]]:
        """Return the connector's own settings as key infos, by any of its names; with `common`, all its settings.

        version: raises `BadRequest` if it is not installed.
        """
        return self._ask(ReadConfigKeys(plugin, common, version), timeout)

    def common_keys(self, timeout: float | None = None) -> list[dict[str, object]]:
        """Return the settings that all source connectors have, as key infos."""
        return self._ask(ReadCommonKeys(), timeout)

    def validate(
        self,
        plugin: str,
        config: Mapping[str, str | None],
        timeout: float | None = None,
        *,
        exactly_once: bool = True,
    ) -> dict[str, object]:
        """Return Kafka Connect's validate body: `name`, `error_count`, `groups`, `configs` of `definition` and `value`.

        exactly_once: whether the cluster runs with `exactly.once.source.support=enabled`.
        """
        return self._ask(ValidateConfig(plugin, dict(config), exactly_once), timeout)

    def examine(self, config: Mapping[str, str], timeout: float) -> dict[str, object] | None:
        """Return `errors`, `summary` and `proposals` of a test of the connection; None if the connector offers none."""
        return self._ask(ExamineSource(dict(config)), timeout)

    def exactly_once_support(self, config: Mapping[str, str], timeout: float | None = None) -> tuple[str, bool, str]:
        """Return what the connector declares for this configuration (supported, unsupported or unknown), whether it
        can define transactions itself, and the effective `transaction.boundary`.
        """
        support, boundaries, boundary = self._ask(ReadExactlyOnceSupport(dict(config)), timeout)
        return support, boundaries, boundary

    def guarantee(self, config: Mapping[str, str], timeout: float, *, exactly_once: bool) -> dict[str, str]:
        """`{"guarantee", "why"}`, see `guarantee.describe_guarantee`."""
        return self._ask(ReadGuarantee(dict(config), exactly_once), timeout)

    def is_java(self, plugin: str, timeout: float | None = None) -> bool:
        """Return whether a name means a Java plugin. Raises `UnknownPlugin`."""
        if java_runtime.ENVIRONMENT not in (self._environment or {}):
            return False
        return self._ask(CheckIsJava(plugin), timeout)

    def find_slot(self, config: Mapping[str, str], timeout: float | None = None) -> str | None:
        """Return the slot that Debezium's first snapshot would find; see `JavaSourceConnector.find_slot`."""
        return self._ask(FindSlot(dict(config)), timeout)

    def alter_offsets(self, config: Mapping[str, str], offsets: Offsets, timeout: float | None = None) -> bool:
        """Return whether the connector has checked the offsets. Raises `OffsetsRefused` if it refuses them."""
        return self._ask(CheckOffsets(dict(config), pairs_of(offsets)), timeout)

    def preview(
        self,
        config: Mapping[str, str],
        offsets: Offsets,
        worker: Mapping[str, str],
        secret: Sequence[str],
        bounds: Mapping[str, float],
        timeout: float,
    ) -> dict[str, object]:
        """Return the first records, which are not committed; see `preview.preview`. Its process ends afterwards.

        worker: its converter settings. secret: settings whose values are hidden, in addition to passwords. bounds:
        records, bytes, seconds. The caller makes sure that no task reads the source at the same time.
        """
        call = PreviewRecords(dict(config), pairs_of(offsets), dict(worker), list(secret), dict(bounds))
        return self._ask(call, timeout)

    def try_transforms(
        self,
        config: Mapping[str, str],
        record: Mapping[str, object],
        worker: Mapping[str, str],
        secret: Sequence[str],
        timeout: float | None = None,
    ) -> dict[str, object]:
        """Return the results of transforms and converters for a record, step by step; see `trial.Chain.walk`."""
        return self._ask(TryChain(dict(config), dict(record), dict(worker), list(secret)), timeout)

    def replay(
        self,
        config: Mapping[str, str],
        letters: Sequence[Mapping[str, object]],
        worker: Mapping[str, str],
        secret: Sequence[str],
        reserved_topics: Sequence[str],
        timeout: float,
    ) -> list[dict[str, object]]:
        """Convert dead letters with the connector's chain; see `replay.again`. Its process ends afterwards."""
        call = ConvertDeadLetters(dict(config), list(letters), dict(worker), list(secret), list(reserved_topics))
        return self._ask(call, timeout)

    def record_positions(self, config: Mapping[str, str], timeout: float | None = None) -> dict[str, object] | None:
        """Return where the connector's records contain their position in the source; None if they do not."""
        return self._ask(ReadRecordPositions(dict(config)), timeout)

    def count_records(self, config: Mapping[str, str], offsets: Offsets, timeout: float) -> list[int | None]:
        """Return how many records the source has up to the committed offsets. It may read the source, so its process
        ends afterwards.
        """
        return self._ask(CountRecords(dict(config), pairs_of(offsets)), timeout)

    def start_connector(
        self,
        name: str,
        config: Mapping[str, str],
        offsets: Offsets = (),
        timeout: float | None = None,
        *,
        grant: Mapping[str, object] | None = None,
    ) -> str:
        """Start the connector's instance, and stop a running one first. Returns its plugin's version.

        offsets: what its offset reader returns. grant: the value of the record with the topics that it may write to,
        None for all but internal ones.
        """
        with self._groups.use(self._environments.find_for(config)) as group:
            before = self._groups.settle(name, group)
            if before is not None:
                before.live.stop(name, self._limit(timeout))
            version = group.live.start(name, config, offsets, self._limit(timeout), grant)
        self.known_versions[version_key(config)] = version
        return version

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

    def _event(self, message: dict[str, object]) -> None:
        if message.get("event") == "reconfigure":
            self._on_reconfigure(str(message["connector"]))
        elif message.get("event") == "failed":
            trace = str(message["trace"])
            self._on_failed(str(message["connector"]), PluginError(trace.partition("\n")[0], trace))
        elif message.get("event") == "warning":
            self._on_warning(str(message["connector"]), str(message["text"]))
