"""Stops tasks, and continues them."""

from ringfence.testing.checks.trial import Trial, part_of

_HINT = "What `poll` returned before a stop is committed: the next task must continue after it."
_ROUNDS = 3


def stops_and_continues(trial: Trial) -> None:
    """Stop while there is much to read, and while there is nothing."""
    count = trial.scenario_class.records
    with trial.connector() as running:
        for number in range(_ROUNDS):
            running.add(part_of(count, 1 / _ROUNDS))
            running.run.start(trial.scenario_class.tasks)
            running.wait_for(part_of(count, (number + 0.3) / _ROUNDS))
            running.stop()
        running.add(part_of(count, 1 / _ROUNDS))
        running.run.start(trial.scenario_class.tasks)
        running.wait_for(len(running.expected))
        running.stop()
        running.require_each_once(_HINT)
