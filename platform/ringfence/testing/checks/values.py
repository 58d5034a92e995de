"""Checks that legal but rare values arrive as they are, and that one which no record can hold refuses its row only."""

from collections.abc import Sequence

from ringfence.connectors.api import SourceRecord, UnreadableRecord
from ringfence.connectors.common_settings import CONNECTOR_CLASS, TASKS_MAX
from ringfence.connectors.plugins import class_path
from ringfence.connectors.sdk.values.moments import is_moment, millis
from ringfence.testing.checks.trial import Trial
from ringfence.testing.connector_run import ask_task_configs
from ringfence.testing.in_memory import NeedsBroker, read
from ringfence.testing.oddities import UNSUPPORTED, Oddity, oddities
from ringfence.testing.outcome import CheckFailed, CheckSkipped, require
from ringfence.testing.scenario import Scenario

_SHOWN = 5


def delivers_rare_values(trial: Trial) -> None:
    """Add each value that the source can hold, and compare what is read."""
    with trial.scenario() as scenario:
        config = dict(scenario.config())
        added = [oddity for oddity in oddities() if scenario.add_value(oddity)]
        if not added:
            raise CheckSkipped("The scenario adds no values: override `add_value` and `value_of`.")
        cls = scenario.connector
        config |= {"name": scenario.topic, CONNECTOR_CLASS: class_path(cls), TASKS_MAX: "1"}
        try:
            records = [
                record
                for each in ask_task_configs(cls, config, 1)
                for record in read(cls.task_class(), {**config, **each}, limit=len(added) + 1)
            ]
        except NeedsBroker as reason:
            raise CheckSkipped(str(reason)) from reason
        except Exception as error:
            raise CheckFailed(
                f"A task that reads rare values ended with {type(error).__name__}: {error}. Return an "
                "`UnreadableRecord` in place of a row that no record can hold."
            ) from error
        require(len(records) == len(added), f"Of {len(added)} rows with rare values, {len(records)} were read.")
        _compare(scenario, added, records)


def _compare(scenario: Scenario, added: Sequence[Oddity], records: Sequence[SourceRecord]) -> None:
    wrong = []
    for oddity, record in zip(added, records, strict=True):
        if isinstance(record, UnreadableRecord):
            if oddity.value is not UNSUPPORTED:
                wrong.append(f"{oddity.kind} {oddity.literal[:40]} was refused: {record.error}")
        elif not matches(oddity, value := scenario.value_of(record)):
            wrong.append(f"{oddity.kind} {oddity.literal[:40]} was delivered as {str(value)[:80]!r}")
    require(not wrong, f"Of {len(added)} rare values, {len(wrong)} are wrong: {'; '.join(wrong[:_SHOWN])}.")


def matches(oddity: Oddity, value: object) -> bool:
    """Return whether the value is the oddity's, as Kafka Connect's type or as text."""
    if isinstance(value, str):
        return value == oddity.text
    if oddity.value is UNSUPPORTED:
        return value is None
    if is_moment(oddity.value):
        return is_moment(value) and millis(value) == millis(oddity.value)
    if isinstance(value, float):
        return repr(value) == repr(oddity.value)  # tells 0.0 from -0.0, and NaN is itself
    return type(value) is type(oddity.value) and value == oddity.value
