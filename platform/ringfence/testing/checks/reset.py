"""Deletes the source offsets."""

from ringfence.connectors.api import ConnectorError
from ringfence.testing.checks.trial import Trial, part_of
from ringfence.testing.outcome import CheckFailed, CheckSkipped

_HINT = "Without source offsets, a connector starts from its beginning: it must keep no other state."


def starts_again_without_offsets(trial: Trial) -> None:
    """Check that each record is delivered exactly twice in all."""
    if not trial.scenario_class.reset_reads_again:
        raise CheckSkipped("The scenario declares that its source does not keep what was read.")
    with trial.connector() as running:
        running.add(part_of(trial.scenario_class.records, 0.25))
        running.run.start(trial.scenario_class.tasks)
        running.wait_for(len(running.expected))
        running.stop()
        try:
            running.run.reset_offsets()
        except ConnectorError as error:
            raise CheckFailed(f"alter_offsets refuses to delete the connector's own offsets: {error}") from error
        running.run.start(trial.scenario_class.tasks)
        running.wait_for(2 * len(running.expected), times=2)
        running.stop()
        running.require_each_once(_HINT, times=2)
