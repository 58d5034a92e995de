"""Checks what a connector declares, without a broker."""

import importlib
from collections.abc import Mapping

from ringfence.connectors.api import ExactlyOnceSupport, SourceConnector
from ringfence.connectors.common_settings import CONNECTOR_CLASS, TASKS_MAX
from ringfence.connectors.plugins import PluginRegistry, class_path, describe, load_task_class
from ringfence.engine.plugins.validation import validate
from ringfence.testing.checks.trial import Trial
from ringfence.testing.connector_run import ask_task_configs, list_errors
from ringfence.testing.outcome import require

_MOST_TASKS = 4


def describes_itself(trial: Trial) -> None:
    """Check its settings, its exactly-once support and its task configurations."""
    cls = trial.scenario_class.connector
    path = class_path(cls)
    require(
        getattr(importlib.import_module(cls.__module__), cls.__qualname__, None) is cls,
        f"{path} cannot be imported by its name: define the class at the top level of a module.",
    )
    load_task_class(class_path(cls.task_class()))
    bare = [key.name for key in cls.config_def().keys.values() if not key.documentation.strip()]
    require(not bare, f"These settings have no documentation: {', '.join(bare)}. The form shows it beside the field.")
    with trial.scenario() as scenario:
        scenario.add(1)
        config = {**scenario.config(), "name": scenario.topic, CONNECTOR_CLASS: path, TASKS_MAX: str(_MOST_TASKS)}
        errors = _find_errors(cls, config)
        require(not errors, f"The scenario's configuration is not valid. {' '.join(errors)}")
        require(
            cls().exactly_once_support(config) is ExactlyOnceSupport.SUPPORTED,
            "exactly_once_support does not return SUPPORTED, so exactly.once.support=required refuses the connector.",
        )
        for most in range(1, _MOST_TASKS + 1):
            _require_stable(cls, {**config, TASKS_MAX: str(most)}, most)


def _find_errors(cls: type[SourceConnector], config: Mapping[str, str]) -> list[str]:
    return list_errors(validate(PluginRegistry([describe(cls)]), class_path(cls), config, exactly_once=True))


def _require_stable(cls: type[SourceConnector], config: Mapping[str, str], most: int) -> None:
    first, second = (ask_task_configs(cls, config, most) for _ in range(2))
    require(len(first) <= most, f"task_configs({most}) returned {len(first)} configurations.")
    require(
        first == second,
        f"task_configs({most}) returned two different results, so tasks would be restarted needlessly. Sort its lists.",
    )
