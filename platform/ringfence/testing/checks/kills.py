"""Kills tasks in the middle of their transactions."""

from ringfence.testing.checks.trial import RunningScenario, Trial, part_of
from ringfence.testing.outcome import require

_KILLS = 4
_HINT = (
    "A task that starts must continue from `context.offset_reader`, and must not remove anything from the source "
    "before `commit`."
)


def survives_a_kill(trial: Trial) -> None:
    """Kill once, with committed records and an open transaction. Takes seconds: for an author's tests on each change.
    `survives_kills` is the check in reports.
    """
    part = part_of(trial.scenario_class.records, 1 / 3)
    with trial.connector(open_longer=True) as running:
        running.add(part)
        running.run.start(trial.scenario_class.tasks)
        running.wait_for(len(running.expected))
        open_transactions = running.add_until_open(part)
        running.run.kill()
        running.add(part)
        _require_all_once(running)
    _require_met(open_transactions, trial)


def survives_kills(trial: Trial) -> None:
    """Kill four times, with more records added before each; at least one kill must meet an open transaction."""
    count, open_transactions = trial.scenario_class.records, 0
    with trial.connector(open_longer=True) as running:
        for number in range(_KILLS):
            running.add(part_of(count, 1 / (_KILLS + 1)))
            running.run.start(trial.scenario_class.tasks)
            if number % 2:
                running.wait_for(part_of(count, number / (_KILLS + 1)))
            open_transactions += running.wait_for_open_transaction()
            running.run.kill()
        running.add(part_of(count, 1 / (_KILLS + 1)))
        _require_all_once(running)
    _require_met(open_transactions, trial)


def _require_all_once(running: RunningScenario) -> None:
    running.run.start(running.scenario.tasks)
    running.wait_for(len(running.expected))
    running.stop()
    running.require_each_once(_HINT)


def _require_met(open_transactions: int, trial: Trial) -> None:
    require(
        open_transactions,
        "No kill met an open transaction, so this result proves little: let the scenario add more than "
        f"{trial.scenario_class.records} records (`records`), or let `poll` return fewer at once.",
    )
