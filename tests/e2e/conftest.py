"""One running platform with two workers for all tests that leave it working; each test starts from a calm one.

After a failed test, the ends of its processes' logs are shown, and where their threads stand.
"""

import contextlib
import os
import signal
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Retriable
from ringfence.fencing.ids import parse_member_client_id
from ringfence.fencing.kafka.consumer_groups import group_members
from tests.e2e import processes
from tests.e2e.flow import Flow
from tests.e2e.topics import STATUSES, write
from tests.e2e.up import Up
from tests.support.cases import tests_in
from tests.support.names import unique
from tests.support.waiting import eventually

_MOST_LINES = 150
_SECONDS = 5.0


def worker_logs(up: Up) -> dict[str, str]:
    """The last lines of each worker's log by role, with the stacks of all threads; a frozen process writes none."""
    roles = [f"worker-{number}" for number in range(1, up.workers + 1)]
    for role in roles:
        with contextlib.suppress(AssertionError, OSError):
            _ask_for_stacks(up, role)
    return {role: "\n".join(up.log(role).splitlines()[-_MOST_LINES:]) for role in roles}


def _ask_for_stacks(up: Up, role: str) -> None:
    before = len(up.log(role))
    os.kill(up.pid(role), signal.SIGUSR2)
    eventually(lambda: "Thread 0x" in up.log(role)[before:], _SECONDS, "the stacks", pause=0.1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in tests_in(Path(__file__).parent, items):
        # One that is added here stands nearer than one of the module.
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(300))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failure shows what the workers were doing."""
    report = yield
    up = item.funcargs.get("shared_up") if isinstance(item, pytest.Function) else None
    if report.when == "call" and report.failed and isinstance(up, Up):
        report.sections += worker_logs(up).items()
    return report


@pytest.fixture(scope="package")  # not "session": it would take its share of the machine from all that follows
def shared_up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """Kafka, Valkey, web and two workers, all settings at their defaults.

    RINGFENCE_TEST_UP=DIR uses a running `ringfence up --data DIR --workers 2` instead.
    """
    if os.environ.get("RINGFENCE_TEST_UP"):
        yield Up.attached(Path(os.environ["RINGFENCE_TEST_UP"]), workers=2)
        return
    with Up(tmp_path_factory.mktemp("platform"), workers=2) as up:
        yield up


@pytest.fixture
def platform(shared_up: Up) -> Up:
    """The shared platform, whole again after what the test before did to it."""
    await_calm(shared_up)
    return shared_up


@pytest.fixture
def flow(platform: Up) -> Iterator[Callable[..., Flow]]:
    """`flow(tasks=1, throughput=100)` creates a connector that writes; it is deleted after the test."""
    yield from flows(platform)


def flows(up: Up) -> Iterator[Callable[..., Flow]]:
    """For fixtures: a factory of connectors on `up`."""
    made: list[Flow] = []

    def make(prefix: str = "flow", **options: int) -> Flow:
        made.append(Flow(up, unique(prefix), **options))
        return made[-1].create()

    yield make
    for one in made:
        one.close()


def forget_suspicions(up: Up) -> None:
    """Make every worker trusted again at once: after a test that has frozen it, it would wait for tasks for long."""

    def trusted() -> bool:
        rows = up.rest.expect(200, "GET", "/api/v1/workers")["results"]
        suspected = [row["worker"] for row in rows if row["trust"] != "trusted" or row["suspicions"]]
        for worker in suspected:  # again, if the leader has just written that one is back
            write(up, STATUSES, f"suspicion-{worker}".encode(), None)
        return not suspected

    eventually(trusted, 30, "trust in all workers", pause=0.5)


def await_calm(up: Up, seconds: float = 120) -> None:
    """Wait until every worker is a member with a warm Spark, and a leader answers; all of them are trusted then."""

    def calm() -> bool:
        try:
            members = group_members(up.connection, "ringfence", Deadline.after(10))
        except Retriable:
            return False  # the broker may be coming back
        names = sorted(parsed[0] for member in members if (parsed := parse_member_client_id(member.client_id)))
        assert names == [f"worker-{number}" for number in range(1, up.workers + 1)], names
        assert all(processes.has_daemon(up.pid(worker)) for worker in names), "Spark is not up"
        assert up.rest.call("GET", "/health").status_code == 200, "no leader"
        return True

    eventually(calm, seconds, "all workers are there, and a leader", pause=0.2)
    forget_suspicions(up)


@pytest.fixture
def stopwatch(record_property: Callable[[str, object], None]) -> Callable[[str, float], None]:
    """`stopwatch("recovered", seconds)` puts a measured time into the test's output and report."""

    def note(name: str, seconds: float) -> None:
        record_property(name, round(seconds, 2))
        print(f"{name}: {seconds:.2f} s")

    return note
