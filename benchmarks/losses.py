"""`python -m benchmarks losses`: what the loss of each part costs, in seconds without records, answers and commands.

A platform in which nothing exists only once (`tests/e2e/redundant.py`) runs a connector with three tasks. One part
after another is lost and comes back. In the end each record has to be there once.
"""

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

import httpx

from benchmarks.command import new_folder, new_parser, write_page
from benchmarks.kills import ArrivalsByTask
from benchmarks.machine import describe, foot, load
from benchmarks.processes import find_busiest
from benchmarks.rest import BenchmarkError
from ringfence.local.errors import LocalError
from ringfence.local.guarded_process import wait_until
from ringfence.local.kafka import EmbeddedKafka
from tests.e2e import processes
from tests.e2e.conftest import await_calm
from tests.e2e.flow import Flow
from tests.e2e.redundant import Redundant, api_client, redundant_platform

PAGE: Final = Path(__file__).resolve().parent / "results" / "losses.md"
_TASKS, _RECORDS_S, _INTERVAL_MS = 3, 100, 200
_READ_SECONDS, _COMMAND_SECONDS = 5.0, 15.0
_CALM_SECONDS = 5.0
_BACK_SECONDS = 180.0
_WHOLE_SECONDS = 240.0

Mend = Callable[[], object]
"""Brings back what was lost, where `ringfence up` does not do so by itself."""


@dataclass(frozen=True, slots=True)
class Loss:
    """seconds: until it is brought back."""

    key: str
    title: str
    strike: Callable[[Redundant, Flow], Mend | None]
    seconds: float = 0.0


class Probe:
    """Sends a request again and again, on a thread of its own, and notes when it was answered as it should be."""

    def __init__(self, client: httpx.Client, method: str, path: str, body: object, pause: float) -> None:
        self.failures: Counter[str] = Counter()
        self._client, self._request, self._pause = client, (method, path, body), pause
        self._answered: list[float] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="probe", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        method, path, body = self._request
        while not self._stop.wait(self._pause):
            try:
                status = self._client.request(method, path, json=body).status_code
            except httpx.HTTPError as error:
                self.failures[type(error).__name__] += 1
                continue
            if status < 300:
                self._answered.append(time.monotonic())
            else:
                self.failures[str(status)] += 1

    def longest(self, since: float, until: float) -> float:
        """Return the longest time without a good answer, in seconds."""
        moments = [since, *(moment for moment in list(self._answered) if since < moment < until), until]
        return max(later - earlier for earlier, later in pairwise(moments))

    def answered_after(self, moment: float) -> bool:
        return bool(self._answered) and self._answered[-1] > moment

    def close(self) -> None:
        self._stop.set()
        self._thread.join(_COMMAND_SECONDS + 1)
        self._client.close()


@dataclass(frozen=True, slots=True)
class Cost:
    """The longest time without records of one of the tasks, without answers to reads, and to commands, in seconds, and
    how many requests failed.
    """

    records: float
    reads: float
    commands: float
    failures: Mapping[str, int]


class Measured:
    """The platform under load. Use it with `with`."""

    def __init__(self, platform: Redundant) -> None:
        self.platform = platform
        self.flow = Flow(platform.up, "losses", tasks=_TASKS, throughput=_RECORDS_S, interval_ms=_INTERVAL_MS)
        self._stack = ExitStack()

    def __enter__(self) -> "Measured":
        with ExitStack() as stack:
            self.flow.create()
            stack.callback(self.flow.close)
            self._arrivals = ArrivalsByTask(self.platform.connection, self.flow.name)
            stack.callback(self._arrivals.close)
            status = f"/connectors/{self.flow.name}/status"
            level = f"/api/v1/connectors/{self.flow.name}/log-level"
            proxy = self.platform.proxy
            self._reads = Probe(api_client(proxy, _READ_SECONDS), "GET", status, None, 0.1)
            # A record in the config topic that nobody notices.
            command = {"level": "INFO", "minutes": 1}
            self._commands = Probe(api_client(proxy, _COMMAND_SECONDS), "PUT", level, command, 0.5)
            stack.callback(self._reads.close)
            stack.callback(self._commands.close)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def cost(self, loss: Loss) -> Cost:
        """Have something lost, and wait until all is whole again."""
        self._await_whole("before it")
        self._reads.failures.clear()
        self._commands.failures.clear()
        since = time.monotonic()
        mend = loss.strike(self.platform, self.flow)
        time.sleep(max(0.0, since + loss.seconds - time.monotonic()))
        if mend is not None:
            mend()
        self._await_whole("after it")
        until = time.monotonic()
        return Cost(
            max(self._arrivals.pauses(since, until).values()),
            self._reads.longest(since, until),
            self._commands.longest(since, until),
            self._reads.failures + self._commands.failures,
        )

    def _await_whole(self, when: str) -> None:
        """Until records of all tasks come, requests are answered, and nobody is away; and some seconds more."""
        await_calm(self.platform.up, _WHOLE_SECONDS)
        self.platform.cluster.await_in_sync()
        now = time.monotonic()
        if not wait_until(lambda: self._comes_after(now), _BACK_SECONDS, pause=0.1):
            raise BenchmarkError(f"not everything was back within {_BACK_SECONDS:.0f} s {when}: {self.flow.status()}")
        time.sleep(_CALM_SECONDS)

    def _comes_after(self, moment: float) -> bool:
        times = list(self._arrivals.times.values())
        delivered = len(times) == _TASKS and all(each[-1] > moment for each in times)
        return delivered and self._reads.answered_after(moment) and self._commands.answered_after(moment)


def _lose_nothing(_platform: Redundant, _flow: Flow) -> None:
    """What the measuring itself sees."""


def _lose_task(platform: Redundant, flow: Flow) -> None:
    os.kill(find_busiest(processes.tasks(platform.up.pid(flow.worker_of())), 2.0), signal.SIGKILL)


def _other_worker(platform: Redundant) -> str:
    return "worker-2" if platform.leading_worker() == "worker-1" else "worker-1"


def _lose_worker(platform: Redundant, _flow: Flow) -> None:
    os.kill(platform.up.pid(_other_worker(platform)), signal.SIGKILL)


def _lose_leader(platform: Redundant, _flow: Flow) -> None:
    os.kill(platform.up.pid(platform.leading_worker()), signal.SIGKILL)


def _freeze(pids: Sequence[int]) -> Mend:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)

    def thaw() -> None:
        for pid in reversed(pids):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    return thaw


def _freeze_worker(platform: Redundant, _flow: Flow) -> Mend:
    return _freeze(platform.family(_other_worker(platform)))


def _freeze_leader(platform: Redundant, _flow: Flow) -> Mend:
    return _freeze(platform.family(platform.leading_worker()))


def _lose_web(platform: Redundant, _flow: Flow) -> Mend:
    platform.webs.second.kill()
    return platform.webs.start


def _freeze_web(platform: Redundant, _flow: Flow) -> Mend:
    return _freeze([platform.webs.second.pid])


def _lose_redis(platform: Redundant, _flow: Flow) -> Mend:
    port = platform.redis.primary()
    platform.redis.kill(port)

    def mend() -> None:
        platform.redis.restart(port)
        platform.redis.await_replica(port)

    return mend


def _freeze_redis(platform: Redundant, _flow: Flow) -> Mend:
    port = platform.redis.primary()
    thaw = _freeze([platform.redis.pid(port)])

    def mend() -> None:
        thaw()
        platform.redis.await_replica(port)

    return mend


def _lose_primary(platform: Redundant, _flow: Flow) -> Mend:
    platform.postgres.fail_over()
    return platform.postgres.rebuild


def _restart_primary(platform: Redundant, _flow: Flow) -> Mend:
    platform.postgres.primary.stop()
    return platform.postgres.primary.start


def _hang_primary(platform: Redundant, _flow: Flow) -> Mend:
    platform.postgres.fail_over(hangs=True)

    def mend() -> None:
        platform.postgres.primary.crash()  # as whatever has decided for the standby does with the other's machine
        platform.postgres.rebuild()

    return mend


def _lose(broker: EmbeddedKafka) -> Mend:
    broker.kill()
    return broker.start


def _lose_partition_leader(platform: Redundant, flow: Flow) -> Mend:
    return _lose(platform.cluster.leader(flow.name, 0))


def _lose_task_coordinator(platform: Redundant, flow: Flow) -> Mend:
    return _lose(platform.cluster.task_coordinator(flow.name))


def _lose_group_coordinator(platform: Redundant, _flow: Flow) -> Mend:
    return _lose(platform.cluster.group_coordinator())


def _lose_controller(platform: Redundant, _flow: Flow) -> Mend:
    return _lose(platform.cluster.active_controller())


def _freeze_broker(platform: Redundant, flow: Flow) -> Mend:
    return _freeze([platform.cluster.task_coordinator(flow.name).process.pid])


def _restart_brokers(platform: Redundant, _flow: Flow) -> None:
    for broker in platform.cluster.brokers:
        platform.cluster.restart(broker)


LOSSES: Final = (
    Loss("nothing", "nothing, for 20 s", _lose_nothing, 20),
    Loss("task", "a task's process is killed", _lose_task),
    Loss("worker", "a worker is killed, another one is on its machine", _lose_worker),
    Loss("leader", "the leader is killed, another worker is on its machine", _lose_leader),
    Loss("worker-frozen", "a worker's machine is lost (all of the worker frozen for 30 s)", _freeze_worker, 30),
    Loss("leader-frozen", "the leader's machine is lost (all of the leader frozen for 30 s)", _freeze_leader, 30),
    Loss("web", "a web process of two is killed, for 20 s", _lose_web, 20),
    Loss("web-frozen", "a web process of two hangs for 45 s", _freeze_web, 45),
    Loss("redis", "Redis' primary is killed; Sentinels wait 5 s", _lose_redis, 20),
    Loss("redis-frozen", "Redis' primary hangs for 30 s; Sentinels wait 5 s", _freeze_redis, 30),
    Loss("postgres", "PostgreSQL's primary is killed, the standby takes over at once", _lose_primary, 20),
    Loss("postgres-away", "PostgreSQL is away for 20 s, without a standby", _restart_primary, 20),
    Loss("postgres-hangs", "PostgreSQL's primary hangs, and is ended after 20 s", _hang_primary, 20),
    Loss("broker", "a broker of three is killed, which leads a partition", _lose_partition_leader, 20),
    Loss("coordinator", "the broker of a task's transactions is killed", _lose_task_coordinator, 20),
    Loss("group", "the broker of the workers' group is killed", _lose_group_coordinator, 20),
    Loss("controller", "the active controller is killed, which is a broker, too", _lose_controller, 20),
    Loss("broker-frozen", "the broker of a task's transactions hangs for 30 s", _freeze_broker, 30),
    Loss("rolling", "all three brokers are stopped in order and started again, one after another", _restart_brokers),
)


def table(costs: Mapping[str, Cost]) -> str:
    """Return the costs by loss."""
    rows = [
        "| lost | no records of a task | no answers to reads | no answers to commands | failed requests |",
        "|---|--:|--:|--:|---|",
    ]
    titles = {loss.key: loss.title for loss in LOSSES}
    for key, cost in costs.items():
        failures = ", ".join(f"{count} {name}" for name, count in sorted(cost.failures.items())) or "none"
        seconds = " | ".join(f"{each:.1f} s" for each in (cost.records, cost.reads, cost.commands))
        rows.append(f"| {titles[key]} | {seconds} | {failures} |")
    return "\n".join(rows)


def page(tables: str, records: int, machine: Mapping[str, str]) -> str:
    """Return the text of benchmarks/results/losses.md."""
    return f"""\
# What each loss costs

`make bench ARGS="losses --write"` writes this page. Three brokers with three replicas of everything (they are the
controllers, too), two workers that `ringfence up` starts again, two web processes behind HAProxy as
`deploy/haproxy.cfg` has it, PostgreSQL with a streaming standby, and Redis with a replica and Sentinels, all on one
machine. A VerifiableSource connector with {_TASKS} tasks delivers {_RECORDS_S} records a second each, exactly once, in
a transaction every {_INTERVAL_MS} ms. A read every 0.1 s and a command every 0.5 s go through HAProxy.

Each row is one loss, tried on the whole platform under this load: the longest time in which a read_committed consumer
gets no record of one of the tasks, and the longest times without a good answer. Reads are given up after
{_READ_SECONDS:g} s, commands after {_COMMAND_SECONDS:g} s, and then sent again. What was lost comes back before the
next row.

{tables}

In the end, all {records:,} records were there once: none was missing, and none was there twice.

{foot(machine)}"""


def main(argv: Sequence[str]) -> int:
    """Return an exit code as in `python -m benchmarks`."""
    parser = new_parser("losses", __doc__, PAGE)
    keys = [loss.key for loss in LOSSES]
    parser.add_argument("--only", nargs="+", choices=keys, default=keys, help="these losses (default: all)")
    args = parser.parse_args(argv)
    loads = [load()]
    costs: dict[str, Cost] = {}
    with new_folder("losses") as root:
        try:
            with redundant_platform(root) as platform, Measured(platform) as measured:
                for loss in LOSSES:
                    if loss.key in args.only:
                        costs[loss.key] = measured.cost(loss)
                        loads.append(load())
                        print(f"{loss.key}: {costs[loss.key]} (load {loads[-1]})", flush=True)
                measured.flow.settle()  # raises where a record is missing or twice
                records = measured.flow.reader.count
        except (AssertionError, BenchmarkError, LocalError) as error:
            raise BenchmarkError(f"{error}\n{table(costs)}") from error
    print(table(costs))
    if args.write:
        machine = {**describe(), "load before, and after each loss": "; ".join(loads)}
        write_page(PAGE, page(table(costs), records, machine))
    return 0
