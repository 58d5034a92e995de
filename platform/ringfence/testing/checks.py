"""The checks of the compatibility suite. To add one, add a function here and a line in `CHECKS`.

A check gets a `Trial`: one scenario with one connector in the runtime.
"""

import importlib
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ringfence.connectors.api import (
    ConnectorError,
    ExactlyOnceSupport,
    OffsetRecord,
    SourceConnector,
    SourceRecord,
    UnreadableRecord,
)
from ringfence.connectors.common_settings import CONNECTOR_CLASS, TASKS_MAX, TRANSACTION_BOUNDARY_INTERVAL_MS
from ringfence.connectors.plugins import PluginRegistry, class_path, describe, load_task_class
from ringfence.connectors.sdk import worker_limits
from ringfence.connectors.sdk.delivery import TRANSACTION_BOUNDARY, transaction_boundary, with_boundary
from ringfence.connectors.sdk.values.moments import is_moment, millis
from ringfence.engine.plugins.validation import validate
from ringfence.fencing.clock import Deadline
from ringfence.local.guarded_process import wait_until
from ringfence.testing.connector_run import ConnectorRun, ask_task_configs, list_errors, worker_settings
from ringfence.testing.in_memory import NeedsBroker, committed_after, read
from ringfence.testing.oddities import UNSUPPORTED, Oddity, oddities
from ringfence.testing.outcome import CheckFailed, CheckSkipped, compare, require
from ringfence.testing.scenario import Scenario

_SECONDS = 60.0
_OPEN_SECONDS = 10.0
_OPEN_TRIES = 5
_MOST_STACKS = 4_000


class Trial:
    """Each check of a scenario gets a new one. bootstrap: of a broker where topics may be created."""

    def __init__(self, scenario: type[Scenario], bootstrap: str, folder: Path, seconds: float = _SECONDS) -> None:
        """folder: an empty one. seconds: how long to wait for records."""
        self.scenario_class = scenario
        self._bootstrap = bootstrap
        self._folder = folder
        self._seconds = seconds

    @contextmanager
    def scenario(self) -> Iterator[Scenario]:
        """Yield the source, for checks without a broker. What the worker allows its tasks is allowed here, too."""
        source = self._folder / secrets.token_hex(4)
        source.mkdir(parents=True)
        former = worker_limits.current()
        worker_limits.declare(worker_limits.of_settings(worker_settings(str(source))))
        try:
            scenario = self.scenario_class(source, f"check-{secrets.token_hex(4)}")
            scenario.bootstrap = self._bootstrap
            try:
                yield scenario
            finally:
                scenario.close()
        finally:
            worker_limits.declare(former)

    @contextmanager
    def connector(self, *, open_longer: bool = False) -> Iterator["RunningScenario"]:
        """Yield the source and the connector, which runs nothing yet.

        open_longer: whether the broker gets each record at once, and a transaction takes a second unless the scenario
        says where it ends, so that a kill meets one.
        """
        with self.scenario() as scenario:
            cls, config = self.scenario_class.connector, dict(scenario.config())
            if open_longer and TRANSACTION_BOUNDARY not in with_boundary(cls(), config):
                config |= {TRANSACTION_BOUNDARY: "interval", TRANSACTION_BOUNDARY_INTERVAL_MS: "1000"}
            if open_longer:  # or a few records wait in the producer until the commit, which no kill could meet
                config |= {"producer.override.batch.size": "0"}
            run = ConnectorRun(self._bootstrap, scenario.topic, cls, config, str(scenario.folder))
            try:
                yield RunningScenario(scenario, run, self._seconds)
            finally:
                run.close()


class RunningScenario:
    """What was added to the source, and what was delivered."""

    def __init__(self, scenario: Scenario, run: ConnectorRun, seconds: float) -> None:
        self.scenario = scenario
        self.run = run
        self.expected: list[str] = []
        self._seconds = seconds

    def add(self, count: int) -> None:
        """Add records. If the source does not grow, the first call adds everything, and later ones nothing."""
        if self.scenario.grows:
            self.expected += self.scenario.add(count)
        elif not self.expected:
            self.expected += self.scenario.add(self.scenario.records)

    def identify_visible(self) -> list[str]:
        """Return the identity of each visible record."""
        return [self.scenario.identify(record) for record in self.run.visible()]

    def wait_for(self, count: int, times: int = 1) -> None:
        """Wait until this number of records is visible. times: how often each record is delivered in the end.

        Raises `CheckFailed` if a task ends first, or it takes too long.
        """
        ends_at = time.monotonic() + self._seconds
        while True:
            visible = self.identify_visible()
            if len(visible) >= count:
                return
            for number, attempt in enumerate(self.run.running):
                if not attempt.running:
                    trace = attempt.outcome()["trace"] or "it ended without an error"
                    raise CheckFailed(f"Task {number} ended after {len(visible)} of {count} records: {trace}")
            if time.monotonic() >= ends_at:
                text = f"Only {len(visible)} of {count} records are visible after {self._seconds:.0f} s."
                compare(self.expected * times, visible, f"{text} {self._logs()}")
                raise CheckFailed(text)
            time.sleep(0.05)

    def add_until_open(self, count: int) -> bool:
        """Add records until some are in an open transaction. Returns whether that was seen: where the machine is busy,
        a look can come after the commit, so that more records are needed.
        """
        for _ in range(_OPEN_TRIES):
            self.add(count)
            if self.wait_for_open_transaction():
                return True
            if not self.scenario.grows:
                break
        return False

    def wait_for_open_transaction(self) -> bool:
        """Wait for records that are not visible yet. Returns whether there were any within a few seconds."""
        deadline = Deadline.after(_OPEN_SECONDS)
        while not self.run.has_open_transaction():
            if deadline.expired or len(self.run.visible()) >= len(self.expected):
                return False
            time.sleep(0.05)
        return True

    def stop(self, seconds: float = 30.0) -> None:
        """Stop all tasks, which commit. Raises `CheckFailed` if one fails, or still runs after `seconds`."""
        attempts = [each for each in self.run.running if each.running]
        for attempt in attempts:
            attempt.request_stop()
        if not wait_until(lambda: not any(each.running for each in attempts), seconds):
            stacks = "\n".join(each.read_stacks()[-_MOST_STACKS:] for each in attempts if each.running)
            raise CheckFailed(
                f"A task is still running {seconds:.0f} s after the request to stop: `poll` must return within about "
                f"a second, and must wait with `context.wait`, which then ends early. It runs here:\n{stacks}"
            )
        for attempt in attempts:
            trace = attempt.outcome()["trace"]
            if trace is not None:
                raise CheckFailed(f"A task failed when it was stopped: {trace}")

    def require_each_once(self, hint: str, times: int = 1) -> None:
        """After a stop, check that each record was delivered the right number of times. Raises `CheckFailed`."""
        compare(self.expected * times, self.identify_visible(), hint)

    def _logs(self) -> str:
        return " ".join(f"Task {number}: {each.log[-2000:]}" for number, each in enumerate(self.run.running))


def part_of(count: int, part: float) -> int:
    """Return this fraction of the number of records, at least one."""
    return max(1, int(count * part))


_KILLS = 4
_KILLS_HINT = (
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
    running.require_each_once(_KILLS_HINT)


def _require_met(open_transactions: int, trial: Trial) -> None:
    require(
        open_transactions,
        "No kill met an open transaction, so this result proves little: let the scenario add more than "
        f"{trial.scenario_class.records} records (`records`), or let `poll` return fewer at once.",
    )


_RESET_HINT = "Without source offsets, a connector starts from its beginning: it must keep no other state."


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
        running.require_each_once(_RESET_HINT, times=2)


_RECORDS = 60
_CUTS = 12
_RESUME_HINT = (
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
        hint = f"They were read after the offsets of {cut} of {len(everything)} records. {_RESUME_HINT}"
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


_STOP_HINT = "What `poll` returned before a stop is committed: the next task must continue after it."
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
        running.require_each_once(_STOP_HINT)


_TASKS_HINT = (
    "Source partitions must not depend on how the work is divided: a task must find the offsets of another task "
    "under the same source partition."
)


def survives_other_task_counts(trial: Trial) -> None:
    """Run one task, then as many as possible, then one again."""
    most, count = trial.scenario_class.tasks, trial.scenario_class.records
    if most == 1:
        raise CheckSkipped("The scenario uses one task only.")
    with trial.connector() as running:
        running.add(part_of(count, 1 / 3))
        for number, tasks in enumerate((1, most, 1)):
            running.run.start(tasks)
            if number:  # not before the start: the tasks that it ends would read them
                running.add(part_of(count, 1 / 3))
            running.wait_for(part_of(count, (number + 0.3) / 3))
        running.wait_for(len(running.expected))
        running.stop()
        running.require_each_once(_TASKS_HINT)


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


_ZOMBIES_HINT = "`commit` of a task that was fenced must change nothing at the source that the new task still needs."
_ZOMBIES_SECONDS = 60.0


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
        all_ended = wait_until(lambda: not any(attempt.running for attempt in zombies), _ZOMBIES_SECONDS)
        require(all_ended, f"A fenced task still runs {_ZOMBIES_SECONDS:.0f} s later: check that `poll` returns")
        running.stop()
        running.require_each_once(_ZOMBIES_HINT)


__all__ = ["CHECKS", "SUITE_VERSION", "Check", "Trial", "survives_a_kill"]

SUITE_VERSION = 2
"""Increase it when a check is added or becomes stricter: reports contain it."""


@dataclass(frozen=True, slots=True)
class Check:
    """One check. `run` raises `CheckFailed` or `CheckSkipped`, and any exception of the connector."""

    name: str
    about: str
    run: Callable[[Trial], None]

    def __str__(self) -> str:
        return self.name


CHECKS = (
    Check("settings", "Settings are documented, task configurations stable, exactly once is claimed", describes_itself),
    Check("resume", "A task that starts at any source offset delivers exactly the rest", resumes_after_each_record),
    Check("values", "Rare values arrive as they are, or refuse their row only", delivers_rare_values),
    Check("kills", "Tasks are killed again and again: each record once", survives_kills),
    Check("zombies", "Frozen tasks wake up after others have taken over: each record once", shuts_zombies_out),
    Check("stop", "Tasks stop in time, and others continue: each record once", stops_and_continues),
    Check("reset", "Without source offsets, everything is read again", starts_again_without_offsets),
    Check("tasks", "The number of tasks changes while they run: each record once", survives_other_task_counts),
)
