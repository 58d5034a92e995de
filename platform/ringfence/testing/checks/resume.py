"""Checks that a task that starts from any source offset delivers what comes after it, and nothing else. In memory.

Records of a batch with the same source offset are committed together, so no start happens between them.
"""

from collections.abc import Mapping, Sequence

from ringfence.connectors.api import OffsetRecord, SourceRecord
from ringfence.connectors.common_settings import CONNECTOR_CLASS, TASKS_MAX
from ringfence.connectors.plugins import class_path
from ringfence.connectors.sdk.delivery import transaction_boundary, with_boundary
from ringfence.testing.checks.trial import Trial
from ringfence.testing.connector_run import ask_task_configs
from ringfence.testing.in_memory import NeedsBroker, committed_after, read
from ringfence.testing.outcome import CheckFailed, CheckSkipped, compare, require

_RECORDS = 60
_CUTS = 12
_HINT = (
    "The offset of a record must say where to continue after it, and `start` must read the position only from "
    "`context.offset_reader`: not from memory, a file or the clock."
)


def resumes_after_each_record(trial: Trial) -> None:
    """For each task, read all records, then read again from some of the offsets."""
    with trial.scenario() as scenario:
        config = dict(scenario.config())
        if transaction_boundary(with_boundary(scenario.connector(), config)) == "connector":
            raise CheckSkipped("The connector defines its transactions: offsets inside them are never committed.")
        scenario.add(_RECORDS)
        cls, tasks = scenario.connector, scenario.tasks
        config |= {"name": scenario.topic, CONNECTOR_CLASS: class_path(cls), TASKS_MAX: str(tasks)}
        total = sum(_check_task(trial, {**config, **each}) for each in ask_task_configs(cls, config, tasks))
        require(total, f"No task returned a record within ten seconds, although the scenario added {_RECORDS}.")


def _check_task(trial: Trial, config: Mapping[str, str]) -> int:
    task_class = trial.scenario_class.connector.task_class()
    try:
        records = read(task_class, config, limit=_RECORDS * 10, offset_records=True)
    except NeedsBroker as reason:
        raise CheckSkipped(str(reason)) from reason
    places = [place for place, record in enumerate(records) if not isinstance(record, OffsetRecord)]
    everything = [records[place] for place in places]
    for record in everything:
        _require_json(record)
    cuts = _find_cuts(everything)
    for cut in cuts[:: max(1, len(cuts) // _CUTS)]:
        expected = everything[cut:]
        offsets = committed_after(records[: places[cut - 1] + 1])
        rest = read(task_class, config, offsets, limit=len(expected) + 10, seconds=10 if expected else 0.5)
        hint = f"They were read after the offsets of {cut} of {len(everything)} records. {_HINT}"
        compare(_describe(expected), _describe(rest), hint)
    return len(everything)


def _find_cuts(records: Sequence[SourceRecord]) -> list[int]:
    """Return how many records may be committed: records with the same source offset stay together."""
    places = [(record.source_partition, record.source_offset) for record in records]
    return [cut for cut in range(1, len(places) + 1) if cut == len(places) or places[cut] != places[cut - 1]]


def _require_json(record: SourceRecord) -> None:
    try:
        after = committed_after([record])
    except (TypeError, ValueError) as error:
        raise CheckFailed(f"Source partitions and offsets must be JSON objects: {error}") from error
    for partition, offset in after:
        require(
            offset == record.source_offset and partition == record.source_partition,
            f"{record.source_partition}: {record.source_offset} is read back from JSON as {partition}: {offset}. Use "
            "strings as keys, and lists instead of tuples.",
        )


def _describe(records: Sequence[SourceRecord]) -> list[str]:
    return [f"{record.topic} {record.key!r} {record.value!r}" for record in records]
