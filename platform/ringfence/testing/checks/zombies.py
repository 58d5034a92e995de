"""Freezes tasks while others take over, and wakes them up afterwards."""

from ringfence.local.guarded_process import wait_until
from ringfence.testing.checks.trial import Trial, part_of
from ringfence.testing.outcome import require

_HINT = "`commit` of a task that was fenced must change nothing at the source that the new task still needs."
_SECONDS = 60.0


def shuts_zombies_out(trial: Trial) -> None:
    """Check that the old tasks end by themselves, without delivering a record."""
    count = trial.scenario_class.records
    with trial.connector(open_longer=True) as running:
        running.add(part_of(count, 0.25))
        running.run.start(trial.scenario_class.tasks)
        running.wait_for(len(running.expected))
        running.add(part_of(count, 0.25))
        running.wait_for_open_transaction()
        zombies = list(running.run.running)
        for attempt in zombies:
            attempt.freeze()
        running.add(part_of(count, 0.25))
        running.run.start(trial.scenario_class.tasks)
        running.wait_for(part_of(count, 0.4))
        for attempt in zombies:
            attempt.thaw()
        running.add(part_of(count, 0.25))
        running.wait_for(len(running.expected))
        all_ended = wait_until(lambda: not any(attempt.running for attempt in zombies), _SECONDS)
        require(all_ended, f"A fenced task still runs {_SECONDS:.0f} s later: check that `poll` returns")
        running.stop()
        running.require_each_once(_HINT)
