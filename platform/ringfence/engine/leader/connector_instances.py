"""Manages the connector instances on the leader: starts one for each connector, and asks it for task configurations.

They run in the plugin process. Calls may take seconds, so none is made on the leader's thread. `PluginUpgrades`
reports when another version of a connector's plugin is installed.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Set
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from ringfence.engine.plugins import PluginHost
from ringfence.engine.plugins.errors import OffsetsNeeded, PluginError, PluginStarting
from ringfence.engine.plugins.host import version_key
from ringfence.engine.queries.connector_offsets import ConnectorOffsets
from ringfence.fencing import stages
from ringfence.fencing.backoff import Backoff
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import FencingError
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.leader.fence_targets import may_keep_own_offsets
from ringfence.fencing.offsets.source_offsets import SourceOffsets
from ringfence.fencing.topics.connector_state import ConnectorState
from ringfence.fencing.topics.topic_grants import TopicGrantRecord

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
        """Note that an instance started with this plugin version."""
        with self._lock:
            self._running[name] = (config, version)
            self._reported_upgrades.pop(name, None)

    def look_at(self, name: ConnectorName, config: Mapping[str, str], version: str) -> None:
        """Report if another version is installed than an instance runs, which has just started. It may take as long as
        a call of a plugin.
        """
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


log = logging.getLogger(__name__)

_BACKOFF = Backoff(1, 60)

_OFFSETS_SECONDS = 60.0
_READERS = 8


@dataclass(frozen=True, slots=True)
class TaskSet:
    """The answer of a connector instance: `tasks` or `trace`; neither if it must be asked again."""

    connector: ConnectorName
    config_offset: int
    tasks: list[dict[str, str]] | None
    trace: str | None


class LeaderInstances:
    """The running connector instances, and the requests to them. Thread-safe."""

    def __init__(
        self,
        host: PluginHost,
        offsets: ConnectorOffsets,
        wake: Callable[[], None],
        on_upgrade: Callable[[ConnectorName, str], None] = lambda _name, _text: None,
    ) -> None:
        """wake: called when an answer is there. on_upgrade(connector, text): called when another version of the
        plugin is installed than the instance runs.
        """
        self._host = host
        self._upgrades = PluginUpgrades(host, on_upgrade)
        self._offsets = offsets
        self._wake = wake
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(4, thread_name_prefix="instances")
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="offsets-ahead")
        self._running: dict[ConnectorName, int] = {}  # the config offset that the instance was started with
        self._restarting: set[ConnectorName] = set()
        self._requests: dict[ConnectorName, Future[TaskSet]] = {}
        self._failures: dict[ConnectorName, tuple[int, str, float, int]] = {}
        self._errors: dict[ConnectorName, tuple[int, str]] = {}
        self._changes: set[ConnectorName] = set()
        self._versions: dict[tuple[str, str], str] = {}

    def take_changes(self) -> set[ConnectorName]:
        """Return the connectors about whose instances something has changed since the last call, by which the answers
        of this object's other methods about them may be other ones. Only the reconcile loop may call it.
        """
        with self._lock:
            changes, self._changes = self._changes, set()
        return changes

    def take_version_changes(self) -> Set[tuple[str, str]]:
        """Return the plugins, as in `version_key`, whose version has become known since the last call, or is another
        one. Only the reconcile loop may call it.
        """
        before, self._versions = self._versions, dict(self._host.known_versions)
        if self._versions == before:
            return frozenset()
        return {key for key, version in self._versions.items() if before.get(key) != version}

    def read_ahead(self, name: ConnectorName, config: Mapping[str, str]) -> "Future[SourceOffsets]":
        """Read the offsets for `make` on another thread. It creates the connector's own offsets topic, as `make`."""
        return self._readers.submit(self._read_offsets, name, config)

    def make(
        self,
        name: ConnectorName,
        config: Mapping[str, str],
        grant: TopicGrantRecord | None,
        ahead: "Future[SourceOffsets] | None" = None,
    ) -> list[dict[str, str]]:
        """Start a new instance, which replaces a running one, and return its task configurations.

        ahead: what `read_ahead` returned for it. Raises `PluginError` if that fails; then the instance is stopped.
        """
        pairs = None
        if ahead is not None or self.needs_offsets(config):
            pairs = self._pairs(name, config, ahead)
        value = None if grant is None else grant.to_value()
        with stages.stage("instance-start"):
            try:
                version = self._host.start_connector(name, config, pairs, grant=value)
            except OffsetsNeeded:
                version = self._host.start_connector(name, config, self._pairs(name, config), grant=value)
        self._upgrades.note(name, config, version)
        with self._lock:
            self._changes.add(name)
        self._pool.submit(self._upgrades.look_at, name, config, version)  # whoever changes the connector need not wait
        try:
            with stages.stage("task-configs"):
                return self._host.task_configs(name, _tasks_max(config))
        except PluginError:
            self._upgrades.forget(name)
            with self._lock:
                self._changes.add(name)
            self._stop(name)
            raise

    def needs_offsets(self, config: Mapping[str, str]) -> bool:
        """Return whether to read the connector's offsets before its instance starts: for the instance, or to create a
        topic of its own.
        """
        return self._host.reads_offsets(config) or may_keep_own_offsets(config)

    def _pairs(
        self, name: ConnectorName, config: Mapping[str, str], ahead: "Future[SourceOffsets] | None" = None
    ) -> list[tuple[dict[str, object], dict[str, object]]]:
        with stages.stage("source-offsets"):
            offsets = self._read_offsets(name, config) if ahead is None else ahead.result()
        return [(dict(each.partition), dict(each.offset or {})) for each in offsets.present()]

    def _read_offsets(self, name: ConnectorName, config: Mapping[str, str]) -> SourceOffsets:
        self._offsets.await_view()
        limit = Deadline.after(_OFFSETS_SECONDS)
        try:
            return self._offsets.read(name, self._offsets.prepare(config, limit), limit)
        except FencingError as error:
            raise PluginError(f"Connector {name} was not started, its offsets cannot be read: {error}") from error

    def look_for_upgrades(self, now: float) -> None:
        """Report plugins that were installed after their connectors started. It works on another thread."""
        if self._upgrades.is_due(now):
            self._pool.submit(self._upgrades.look)

    def mark_started(self, name: ConnectorName, config_offset: int) -> None:
        """Note that `make` succeeded, and that its configuration was written at this offset."""
        with self._lock:
            self._changes.add(name)
            self._running[name] = config_offset
            self._errors.pop(name, None)
            self._restarting.discard(name)
            self._failures.pop(name, None)

    def ask(self, connector: ConnectorState) -> bool:
        """Request the task configurations on another thread. Return False if that runs already, or has just failed."""
        name, config_offset = connector.name, connector.config_offset
        with self._lock:
            if name in self._requests:
                return False
            failure = self._failures.get(name)
            if failure is not None and failure[0] == config_offset and time.monotonic() < failure[2]:
                return False
            config = dict(connector.config or {})
            future = self._pool.submit(self._make, name, config, config_offset, connector.topic_grant)
            self._requests[name] = future
        future.add_done_callback(lambda _: self._wake())
        return True

    def _make(
        self, name: ConnectorName, config: Mapping[str, str], config_offset: int, grant: TopicGrantRecord | None
    ) -> TaskSet:
        try:
            tasks = self.make(name, config, grant)
        except PluginStarting as error:
            log.info("Connector %s will be asked for its tasks again: %s", name, error)
            return TaskSet(name, config_offset, None, None)
        except PluginError as error:
            trace = error.trace or error.message
            with self._lock:
                self._changes.add(name)
                times = self._failures.get(name, (0, "", 0.0, 0))[3]
                self._failures[name] = (config_offset, trace, time.monotonic() + _BACKOFF.pause(times + 1), times + 1)
                self._running.pop(name, None)
                self._restarting.discard(name)
            return TaskSet(name, config_offset, None, trace)
        self.mark_started(name, config_offset)
        return TaskSet(name, config_offset, tasks, None)

    def answers(self) -> list[TaskSet]:
        """Return the answers that have arrived since the last call."""
        with self._lock:
            done = {name: future for name, future in self._requests.items() if future.done()}
            for name in done:
                del self._requests[name]
        results = []
        for name, future in done.items():
            error = future.exception()
            if error is not None:
                log.error("Asking connector %s for its tasks failed: %s", name, error)
                continue
            results.append(future.result())
        return results

    def trace_of(self, name: ConnectorName, config_offset: int) -> str | None:
        """Return the trace of the instance with this configuration if it failed to start or raised an error."""
        failure = self._failures.get(name) or self._errors.get(name)
        return failure[1] if failure is not None and failure[0] == config_offset else None

    def note_error(self, name: ConnectorName, trace: str) -> None:
        """Note that a running instance raised an error. The connector is FAILED until it has a new instance."""
        with self._lock:
            if name in self._running:
                self._changes.add(name)
                self._errors[name] = (self._running[name], trace)

    def fail(self, name: ConnectorName, config_offset: int, trace: str) -> None:
        """Note that the instance failed outside of `ask`."""
        with self._lock:
            self._changes.add(name)
            self._failures[name] = (config_offset, trace, time.monotonic() + 60.0, 1)
            self._running.pop(name, None)

    def restart(self, name: ConnectorName) -> None:
        """Replace the instance, whether it runs or has failed, because a user requested it."""
        with self._lock:
            if name in self._running or name in self._failures:
                self._changes.add(name)
                self._restarting.add(name)
        self.forget(name)

    def restarting(self, name: ConnectorName) -> bool:
        """Return whether the new instance of `restart` has neither started nor failed yet."""
        return name in self._restarting

    def version_of(self, connector: ConnectorState) -> str | None:
        """Return the version of the connector's plugin if this process knows it; makes no call."""
        config = connector.config or {}
        own = self._upgrades.version_of(connector.name, config)
        return own or self._host.known_versions.get(version_key(config))

    def runs(self, name: ConnectorName, config_offset: int) -> bool:
        return self._running.get(name) == config_offset

    def has(self, name: ConnectorName) -> bool:
        """Return whether an instance runs, with whatever configuration."""
        return name in self._running

    def forget(self, name: ConnectorName) -> None:
        """Stop the instance: the connector was stopped or deleted, or needs a new instance."""
        if self._drop(name):
            self._pool.submit(self._stop, name)

    def discard(self, name: ConnectorName) -> None:
        """Stop the instance that `make` started, since its configuration was not written. The stored one gets a new
        instance.
        """
        self._drop(name)
        self._pool.submit(self._stop, name)

    def _drop(self, name: ConnectorName) -> bool:
        """Forget the instance; return whether one was running."""
        self._upgrades.forget(name)
        with self._lock:
            self._changes.add(name)
            self._failures.pop(name, None)
            self._errors.pop(name, None)
            return self._running.pop(name, None) is not None

    def _stop(self, name: ConnectorName) -> None:
        try:
            self._host.stop_connector(name)
        except PluginError as error:
            log.warning("Connector %s did not stop cleanly: %s", name, error)

    def running(self) -> list[ConnectorName]:
        """Return the connectors with a running instance."""
        return list(self._running)

    def close(self) -> None:
        """Stop all instances."""
        for name in self.running():
            self.forget(name)
        self._pool.shutdown(wait=False)
        self._readers.shutdown(wait=False)


def _tasks_max(config: Mapping[str, str]) -> int:
    """Return `tasks.max`; 0 if it comes from a config provider, whose value only the plugin process knows."""
    text = config.get("tasks.max", "1")
    return 0 if "${" in text else int(text)
