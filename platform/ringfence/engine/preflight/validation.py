"""Validates a configuration: by its plugin, by the worker's rules, and by what the brokers permit."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ringfence.engine.plugins import PluginHost
from ringfence.engine.plugins.java_permission import check_permission
from ringfence.engine.preflight import client_overrides, topic_rules, validation_errors
from ringfence.engine.preflight.topic_rules import TopicRules
from ringfence.engine.preflight.validation_errors import ValidationErrors, ValidationRun
from ringfence.fencing import stages
from ringfence.fencing.clock import Deadline
from ringfence.worker_config import WorkerConfig


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
                check_permission(self.plugins, name, limit, java=java)
        settings = {name: value for name, value in config.items() if value is not None}
        brokers = self.refusals.ask(settings, limit) if ask_brokers else ValidationRun()
        timeout = limit.slice(self.plugins.call_seconds)
        with stages.stage("plugin"):
            answer = self.plugins.validate(plugin, config, timeout, exactly_once=self.worker.mode == "enabled")
        answer = client_overrides.add_to(answer, config, self.worker)
        answer = topic_rules.add_to(answer, self.topics.errors_of(settings))
        with stages.stage("brokers"):
            failed = brokers.within(limit.slice(validation_errors.PATIENCE_SECONDS))
        return validation_errors.add_to(answer, failed)
