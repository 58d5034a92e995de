"""Creates a task's record path: converters, handling of bad records, and creation of topics."""

from collections.abc import Callable

from ringfence.fencing.clock import Clock, Deadline
from ringfence.fencing.kafka.topic_admin import TopicSpec, topic_exists
from ringfence.fencing.metrics import Measures
from ringfence.fencing.records.error_handling import RecordErrors
from ringfence.fencing.records.error_policy import ErrorPolicy
from ringfence.fencing.records.record_path import RecordPath
from ringfence.fencing.records.topic_creation import TopicCreationGroups, TopicMaker, make
from ringfence.fencing.task.attempt_report import TaskReport
from ringfence.fencing.task.clients import admin_connection
from ringfence.fencing.task.config_view import DesiredState, TaskView
from ringfence.fencing.task.plugin import Plugin
from ringfence.fencing.task.task_spec import TaskSpec

_SECONDS = 60.0


def record_path(
    spec: TaskSpec,
    plugin: Plugin,
    offsets_topic: str,
    measures: Measures,
    clock: Clock,
    view: TaskView,
    report: TaskReport,
    stopping: Callable[[], None],
) -> RecordPath:
    """Return a path that is ready to prepare batches. stopping: raises if the attempt must end.

    Raises `FencingError` if the dead letter topic cannot be created, `ValueError` for settings that validation refuses,
    `ConnectorError` if the connector may not write to the dead letter topic.
    """

    def pause(seconds: float) -> None:
        view.wait_while(frozenset({DesiredState.RUN}), seconds)
        stopping()

    def show_stage(text: str) -> None:
        report.stage("running", text)

    policy = ErrorPolicy.of(spec.connector_config)
    rules = TopicCreationGroups.of(spec.connector_config, spec.worker_settings)
    config = spec.connector_config
    errors = RecordErrors(policy, plugin.convert, spec.task, measures, clock, pause, plugin.redact, config)
    if policy.dead_letters is not None:
        view.topic_access.check(policy.dead_letters)
        _dead_letter_topic(spec, policy.dead_letters, rules, clock, show_stage)
    ensure = None if rules is None else TopicMaker(admin_connection(spec), rules, clock, show_stage).ensure
    return RecordPath(plugin.convert, offsets_topic, errors=errors, ensure=ensure, access=lambda: view.topic_access)


def _dead_letter_topic(
    spec: TaskSpec, topic: str, rules: TopicCreationGroups | None, clock: Clock, report: Callable[[str], None]
) -> None:
    """Create the dead letter topic before the first bad record needs it."""
    deadline = Deadline.after(_SECONDS, clock)
    there = admin_connection(spec)
    if not topic_exists(there, topic, deadline):
        make(there, TopicSpec(topic) if rules is None else rules.spec(topic), deadline, report)
