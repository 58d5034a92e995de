"""One scenario with one connector in the runtime, for one check."""

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ringfence.connectors.common_settings import TRANSACTION_BOUNDARY_INTERVAL_MS
from ringfence.connectors.sdk import worker_limits
from ringfence.connectors.sdk.delivery import TRANSACTION_BOUNDARY, with_boundary
from ringfence.fencing.clock import Deadline
from ringfence.local.guarded_process import wait_until
from ringfence.testing.connector_run import ConnectorRun, worker_settings
from ringfence.testing.outcome import CheckFailed, compare
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
