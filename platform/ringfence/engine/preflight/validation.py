"""Validates a configuration: by its plugin, by the worker's rules, and by what the brokers permit.

Preflight's certain failures are added to the errors. In KIP-618, the connector and the worker's mode decide. Here, the
modes of all live workers decide, and so do the brokers' answers: a missing permission, or a transaction that would take
too long. A check that is not finished in time refuses nothing.
"""

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass
from typing import Any, Final

from ringfence.engine.config_topic import ReadState
from ringfence.engine.plugins import PluginHost
from ringfence.engine.plugins.calls import ValidateConfig
from ringfence.engine.preflight import client_overrides, cluster_checks, topic_rules
from ringfence.engine.preflight.client_overrides import entry_of
from ringfence.engine.preflight.other_workers import check_modes, requires_exactly_once
from ringfence.engine.preflight.report import count_known_tasks, read_known_tasks
from ringfence.engine.preflight.subject import Check, Subject
from ringfence.engine.preflight.topic_rules import TopicRules
from ringfence.fencing import stages
from ringfence.fencing.clock import Deadline
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.worker_config import WorkerConfig

log = logging.getLogger(__name__)

_THREADS: Final = 4
PATIENCE_SECONDS: Final = 3.0
"""The longest time that a validation waits for brokers after everything else is done."""

Modes = Callable[[Deadline], Mapping[str, str] | None]


class ValidationRun:
    """Running checks. `within` may be called once."""

    def __init__(self) -> None:
        self.checks: list[Check] = []
        self.work: Future[None] | None = None

    def within(self, seconds: float) -> list[Check]:
        """Return the failed checks that refuse the configuration, as far as they are known by then."""
        try:
            if self.work is not None:
                self.work.result(max(0.0, seconds))
        except FutureTimeout:
            if self.work is not None:
                self.work.cancel()
            log.info("A configuration was validated before all brokers had answered: what is unknown refuses nothing")
        return [check for check in list(self.checks) if check.refuses]


class ValidationErrors:
    """One object per worker, thread-safe. The checks run concurrently with the plugin's validation."""

    def __init__(
        self,
        worker: WorkerConfig,
        modes: Modes,
        state: Callable[[], tuple[ClusterState | None, bool]] = lambda: (None, False),
        read_state: ReadState | None = None,
    ) -> None:
        """modes: returns the mode of each live worker by id; None if that is unknown. state: returns the config topic
        as far as it is known here, None before it was read, and whether that is all of it, as on the leader.
        read_state: reads it to its end; the whole topic is read without it.
        """
        self._worker = worker
        self._read_state = read_state
        self._modes = modes
        self._state = state
        self._passed = cluster_checks.Passed()
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="refusals")

    def ask(self, config: Mapping[str, str], limit: Deadline) -> ValidationRun:
        """Start the checks; none for a configuration without a name, which is refused anyway."""
        run = ValidationRun()
        if config.get("name", "").strip():
            run.work = self._pool.submit(self._ask, config, limit, run.checks.append)
        return run

    def _ask(self, config: Mapping[str, str], limit: Deadline, report: Callable[[Check], None]) -> None:
        """Run the checks. It is the root of their thread: an error here refuses nothing."""
        try:
            self._check(config, limit, report)
        except Exception:
            log.exception("The preflight checks of connector %s were not finished", config["name"])

    def _check(self, config: Mapping[str, str], limit: Deadline, report: Callable[[Check], None]) -> None:
        if self._worker.mode == "enabled" and requires_exactly_once(config):
            behind = check_modes(self._modes(Deadline.after(limit.slice(5))), required=True)
            if behind is not None:
                report(behind)
        name = ConnectorName(config["name"])
        subject = Subject(config, self._worker, lambda needed: self._known_tasks(name, needed, limit))

        def has_tasks(needed: int) -> bool:
            state, _ = self._state()
            return state is not None and count_known_tasks(state.connector(name)) >= needed

        for check in cluster_checks.checks(subject, only_refusing=True, passed=self._passed, has_tasks=has_tasks):
            report(check)

    def _known_tasks(self, name: ConnectorName, needed: int, limit: Deadline) -> int | None:
        """See `Subject`. What is known here may be behind the topic, which is read then."""
        state, whole = self._state()
        count = 0 if state is None else count_known_tasks(state.connector(name))
        return count if whole or count >= needed else read_known_tasks(name, self._worker, limit, self._read_state)

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


def add_to(validation: dict[str, Any], checks: list[Check]) -> dict[str, Any]:
    """Return Kafka Connect's validation object with these checks as errors of the settings that they belong to."""
    entries: dict[str, dict[str, Any]] = {str(entry["value"]["name"]): entry for entry in validation["configs"]}
    for check in checks:
        target = entries.get(check.key)
        if target is None and (target := entry_of(check.key)) is not None:
            entries[check.key] = target
            validation["configs"].append(target)
        if target is None:
            target = entries["name"]
        target["value"]["errors"].append(f"{check.message} {check.remedy}".strip())
        validation["error_count"] += 1
    return validation


@dataclass(frozen=True, slots=True)
class Validation:
    """What a worker validates with. Thread-safe."""

    plugins: PluginHost
    worker: WorkerConfig
    refusals: ValidationErrors
    topics: TopicRules

    def validate(
        self, plugin: str, config: Mapping[str, str | None], limit: Deadline, *, java: bool, ask_brokers: bool = True
    ) -> dict[str, Any]:
        """Return Kafka Connect's validation object. java: whether Java plugins may run for the user.

        Raises `Refusal` without that permission, and `PluginError`.
        """
        with stages.stage("java-permission"):
            for name in {plugin, (config.get("connector.class") or plugin).strip()}:
                self.plugins.check_permission(name, limit, java=java)
        settings = {name: value for name, value in config.items() if value is not None}
        brokers = self.refusals.ask(settings, limit) if ask_brokers else ValidationRun()
        timeout = limit.slice(self.plugins.call_seconds)
        with stages.stage("plugin"):
            answer = self.plugins.ask(
                ValidateConfig(plugin, config, exactly_once=self.worker.mode == "enabled"), timeout
            )
        answer = client_overrides.add_to(answer, config, self.worker)
        answer = topic_rules.add_to(answer, self.topics.errors_of(settings))
        with stages.stage("brokers"):
            failed = brokers.within(limit.slice(PATIENCE_SECONDS))
        return add_to(answer, failed)
