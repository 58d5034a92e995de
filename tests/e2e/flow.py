"""A VerifiableSource connector under test: its life over REST, and what a reader sees of its topic."""

import re
import time
from collections.abc import Mapping

from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from tests.e2e import processes
from tests.e2e.checker import Reader, problems, source_offsets
from tests.e2e.rest import Json
from tests.e2e.up import Up
from tests.support.waiting import eventually

OFFSETS = "connect-offsets"
_SETTLE_SECONDS = 60.0


class Flow:
    """One connector and its topic. `settle` is the check that every test ends with."""

    def __init__(self, up: Up, name: str, *, tasks: int = 1, throughput: int = 100, interval_ms: int = 300) -> None:
        """interval_ms: commit as often, a transaction is open nearly all the time; 0: commit after each batch.

        A broker is half a processor busy with fifty transactions a second.
        """
        self.up = up
        self.name = name
        self.tasks = tasks
        self.throughput = throughput
        self.interval_ms = interval_ms
        self._first = self._before = self._of_a_deleted_one = 0
        create_topics(up.connection, [TopicSpec(name, partitions=3)], Deadline.after(30))
        self.reader = Reader(up.connection, name)

    def config(self, **more: str) -> Json:
        return {
            "connector.class": "VerifiableSource",
            "tasks.max": str(self.tasks),
            "topic": self.name,
            "throughput": str(self.throughput),
            "transaction.boundary": "interval" if self.interval_ms else "poll",
            **({"transaction.boundary.interval.ms": str(self.interval_ms)} if self.interval_ms else {}),
            **more,
        }

    def create(self) -> "Flow":
        """Create it, and wait until records of every task arrive."""
        self.up.rest.create(self.name, self.config())
        if self.throughput:
            self.await_progress()
        return self

    def configure(self, *, tasks: int) -> None:
        """Change `tasks.max`."""
        self.tasks = tasks
        self.up.rest.settled(200, "PUT", f"/connectors/{self.name}/config", self.config())

    def status(self) -> Json:
        return self.up.rest.status(self.name)

    def states(self) -> list[str]:
        """The states of the connector and its tasks."""
        status = self.status()
        return [status["connector"]["state"], *(task["state"] for task in status["tasks"])]

    def await_states(self, state: str, timeout: float = _SETTLE_SECONDS) -> None:
        """Wait until the connector and all its tasks are in this state."""
        wanted = [state] * (1 + self.tasks)
        eventually(lambda: self.states() == wanted, timeout, lambda: f"{wanted}: {self.status()}", pause=0.1)

    def worker_of(self, task: int = 0) -> str:
        """The worker that the task is placed on, as REST shows it."""

        def placed() -> str:
            found = [one["worker_id"] for one in self.status()["tasks"] if one["id"] == task]
            return str(found[0]) if found else ""

        return eventually(placed, 20, f"a worker for task {task} of {self.name}", pause=0.1)

    def process(self, worker: str) -> int:
        """The Python process of this flow's task on this worker: the busiest one, the others there are idle."""
        began: dict[int, float] = {}

        def clearly() -> int:
            for pid in processes.tasks(self.up.pid(worker)):
                began.setdefault(pid, processes.cpu_seconds(pid))
            spent = sorted(((processes.cpu_seconds(pid) - since, pid) for pid, since in began.items()), reverse=True)
            others = sum(seconds for seconds, _ in spent[1:])
            return spent[0][1] if spent and spent[0][0] > max(0.1, 4 * others) else 0

        return eventually(clearly, 30, lambda: f"a busy task process on {worker} among {began}", pause=0.1)

    def attempts(self, worker: str) -> tuple[int, int]:
        """How many attempts of this flow's tasks the worker has started, and how many of them have ended."""
        log = self.up.log(worker)
        started = re.findall(rf"Starting {re.escape(self.name)}-\d+, ", log)
        ended = re.findall(rf"Task {re.escape(self.name)}-\d+, attempt \d+ (?:ended|was lost|failed)", log)
        return len(started), len(ended)

    def started(self) -> int:
        """How many attempts of this flow's tasks the workers have started."""
        return sum(self.attempts(f"worker-{number}")[0] for number in range(1, self.up.workers + 1))

    def await_end_of_attempts(self, worker: str) -> None:
        """Wait until every attempt that this (living) worker has started is over: a zombie's last deed is done.

        Those that still belong there do not count.
        """

        def over() -> bool:
            started, ended = self.attempts(worker)
            here = [task for task in self.status()["tasks"] if task["worker_id"] == worker]
            return started - ended == len(here)

        eventually(over, 60, lambda: f"{worker} has started and ended {self.attempts(worker)}", pause=0.1)

    def await_progress(self, records: int = 20, timeout: float = _SETTLE_SECONDS, since: float | None = None) -> float:
        """Wait for `records` more of every task; the seconds from `since` (monotonic; else from now) until they came.

        Not within `timeout` seconds from then is a failure.
        """
        began = time.monotonic() if since is None else since
        self.reader.read_to_end(began + timeout - time.monotonic())
        wanted = {task: len(self.reader.sequences.get(task, ())) + records for task in range(self.tasks)}

        def arrived() -> bool:
            self.reader.poll(0.1)
            return all(len(self.reader.sequences.get(task, ())) >= count for task, count in wanted.items())

        def seen() -> str:
            counts: Mapping[int, int] = {task: len(found) for task, found in self.reader.sequences.items()}
            return f"{wanted} records by task: {counts}, {self.status()}"

        eventually(arrived, began + timeout - time.monotonic(), seen, pause=0.0)
        return time.monotonic() - began

    def rests(self, seconds: float = 1.0) -> bool:
        """Whether nothing new comes for so long."""
        self.reader.read_to_end()
        before, end = self.reader.count, time.monotonic() + seconds
        while time.monotonic() < end and self.reader.count == before:
            self.reader.poll(0.1)
        return self.reader.count == before

    def check(self) -> None:
        """None missing, none twice, offsets and data agree. Only while nothing is being written."""
        self.reader.read_to_end()
        offsets = source_offsets(self.up.connection, OFFSETS, self.name)
        assert problems(self.reader.sequences, offsets, self._first) == []

    def counted(self) -> int:
        """All records that it has committed, as the pages and the API say."""
        return int(self.up.rest.expect(200, "GET", f"/api/v1/connectors/{self.name}")["records_total"])

    def begin_anew(self, first: int = 0) -> None:
        """The offsets were moved: all that comes from here on starts with `first`."""
        self.reader.read_to_end()
        self._before += self.reader.count
        self.reader.sequences.clear()
        self._first = first

    def begin_counts(self) -> None:
        """The connector was deleted: what is in its topic now is not counted for the next one of its name."""
        self.reader.read_to_end()
        self._of_a_deleted_one = self._before + self.reader.count

    def settle(self) -> None:
        """RUNNING and moving, exact when it rests, as its pages count it, too; and moving again."""
        self.await_states("RUNNING")
        self.await_progress()
        self.up.rest.settled(202, "PUT", f"/connectors/{self.name}/pause")
        self.await_states("PAUSED")
        self.check()
        there = self._before + self.reader.count - self._of_a_deleted_one
        eventually(lambda: self.counted() == there, 30, lambda: f"{self.counted()} counted of {there}", pause=0.1)
        self.up.rest.settled(202, "PUT", f"/connectors/{self.name}/resume")
        self.await_states("RUNNING")
        self.await_progress()

    def delete(self) -> None:
        self.up.rest.settled(204, "DELETE", f"/connectors/{self.name}")

    def close(self) -> None:
        """Delete the connector where it still exists."""
        if self.up.rest.call("GET", f"/connectors/{self.name}").status_code == 200:
            self.delete()
        self.reader.close()
