"""Changes the number of tasks while they run."""

from ringfence.testing.checks.trial import Trial, part_of
from ringfence.testing.outcome import CheckSkipped

_HINT = (
    "Source partitions must not depend on how the work is divided: a task must find the offsets of another task "
    "under the same source partition."
)


def survives_other_task_counts(trial: Trial) -> None:
    """Run one task, then as many as possible, then one again."""
    most, count = trial.scenario_class.tasks, trial.scenario_class.records
    if most == 1:
        raise CheckSkipped("The scenario uses one task only.")
    with trial.connector() as running:
        for number, tasks in enumerate((1, most, 1)):
            running.add(part_of(count, 1 / 3))
            running.run.start(tasks)
            running.wait_for(part_of(count, (number + 0.3) / 3))
        running.wait_for(len(running.expected))
        running.stop()
        running.require_each_once(_HINT)
