"""Tasks that are killed in the middle of their transactions."""

from ringfence.testing.checks.trial import RunningScenario, Trial, part_of
from ringfence.testing.outcome import require

_KILLS = 4
_HINT = (
    "A task that starts must continue from `context.offset_reader`, and nothing may be taken from the source for good "
    "before `commit`."
)


def survives_a_kill(trial: Trial) -> None:
    """One kill, with records committed before it and a transaction open, in seconds: for an author's tests on each
    change. `survives_kills` is the check that counts.
    """
    part = part_of(trial.scenario_class.records, 1 / 3)
    with trial.connector(open_longer=True) as running:
        running.add(part)
        running.run.start(trial.scenario_class.tasks)
        running.wait_for(len(running.expected))
        running.add(part)
        met = running.wait_for_open_transaction()
        running.run.kill()
        running.add(part)
        _require_all_once(running)
    _require_met(met, trial)


def survives_kills(trial: Trial) -> None:
    """Four kills, with more records added before each; at least one must meet a transaction that is open."""
    count, met = trial.scenario_class.records, 0
    with trial.connector(open_longer=True) as running:
        for number in range(_KILLS):
            running.add(part_of(count, 1 / (_KILLS + 1)))
            running.run.start(trial.scenario_class.tasks)
            if number % 2:
                running.wait_for(part_of(count, number / (_KILLS + 1)))
            met += running.wait_for_open_transaction()
            running.run.kill()
        running.add(part_of(count, 1 / (_KILLS + 1)))
        _require_all_once(running)
    _require_met(met, trial)


def _require_all_once(running: RunningScenario) -> None:
    running.run.start(running.scenario.tasks)
    running.wait_for(len(running.expected))
    running.stop()
    running.require_each_once(_HINT)


def _require_met(met: int, trial: Trial) -> None:
    require(
        met,
        "No kill met an open transaction, so this says little: let the scenario add more than "
        f"{trial.scenario_class.records} records (`records`), or let `poll` return fewer at once.",
    )
