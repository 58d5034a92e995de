"""`python -m benchmarks answers`: how long each change of a connector takes to be answered, and in which stages.

One connector's configuration and state are changed by the REST API, in turn on each side. Between two changes the
connector settles, so that no change waits for the work of the one before. Ringfence's stages come from the header
`Server-Timing` of its answers.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles

import httpx

from benchmarks.connect import VERIFIABLE
from benchmarks.machine import describe, foot, load
from benchmarks.ours import RingfenceWorker
from benchmarks.rest import BenchmarkError, Rest
from benchmarks.stand import CONNECT, OURS, Stand
from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.local.errors import LocalError
from ringfence.local.guarded_process import wait_until

PAGE = Path(__file__).resolve().parent / "results" / "answers.md"
BESIDE = "other checkout"
TOPIC = "answers"
_SETTLE_SECONDS = 60.0
_BUSY_SECONDS = 20.0
_WARM_UP = 2


@dataclass(frozen=True, slots=True)
class Change:
    """A request. tasks: how many tasks are RUNNING when it has settled, -1 for no connector; state: the connector's."""

    title: str
    method: str
    path: str
    tasks: int
    state: str = "RUNNING"
    body: Callable[[str, int], object] = lambda _name, _turn: None


def config(throughput: int, tasks: int = 1) -> dict[str, str]:
    """Return a configuration, the same for all sides."""
    converter = "org.apache.kafka.connect.storage.StringConverter"
    return {
        "connector.class": "org.apache.kafka.connect.tools.VerifiableSourceConnector",
        "tasks.max": str(tasks),
        "topic": TOPIC,
        "throughput": str(throughput),
        "exactly.once.support": "requested",
        "key.converter": converter,
        "value.converter": converter,
    }


CHANGES = (
    Change("POST", "POST", "", 1, body=lambda name, turn: {"name": name, "config": config(1)}),
    Change("PUT config", "PUT", "/config", 1, body=lambda _, turn: config(2 + turn % 2)),
    Change("PUT config, 1 task to 3", "PUT", "/config", 3, body=lambda _, turn: config(2, 3)),
    Change("PATCH config", "PATCH", "/config", 1, body=lambda _, turn: {"tasks.max": "1"}),
    Change("pause", "PUT", "/pause", 0, "PAUSED"),
    Change("resume", "PUT", "/resume", 1),
    Change("restart with tasks", "POST", "/restart?includeTasks=true", 1),
    Change("stop", "PUT", "/stop", 0, "STOPPED"),
    Change("DELETE", "DELETE", "", -1, ""),
)


@dataclass(slots=True)
class Answers:
    """Of one kind of change: ms until the answer, the stages of each, and how often a rebalance refused it."""

    ms: list[float] = field(default_factory=list)
    stages: list[dict[str, float]] = field(default_factory=list)
    refused: int = 0

    @property
    def slow(self) -> float:
        """The 99th percentile."""
        return quantiles(self.ms, n=100, method="inclusive")[98] if len(self.ms) > 1 else self.ms[0]


Results = dict[str, dict[Change, Answers]]


def parse_stages(header: str) -> dict[str, float]:
    """Read a `Server-Timing` header: milliseconds by name. Pure."""
    parts = (entry.partition(";dur=") for entry in header.split(",") if ";dur=" in entry)
    return {name.strip(): float(ms) for name, _, ms in parts}


class Driver:
    """Changes one connector of a side."""

    def __init__(self, url: str, name: str) -> None:
        self._client = httpx.Client(base_url=url, timeout=_SETTLE_SECONDS)
        self._name = name

    def close(self) -> None:
        self._client.close()

    def make(self, change: Change, turn: int, answers: Answers) -> None:
        """Send the request, note its answer, and wait until it is in effect."""
        until = time.monotonic() + _BUSY_SECONDS
        path = "/connectors" if change.method == "POST" and not change.path else f"/connectors/{self._name}"
        while True:
            began = time.perf_counter()
            body = change.body(self._name, turn)
            answer = self._client.request(change.method, path + change.path, json=body)
            ms = (time.perf_counter() - began) * 1000
            if answer.status_code < 300:
                break
            if answer.status_code != 409 or time.monotonic() > until:
                raise BenchmarkError(f"{change.title}: {answer.status_code} {answer.text[:500]}")
            answers.refused += 1
            time.sleep(0.1)
        answers.ms.append(ms)
        if header := answer.headers.get("Server-Timing"):
            answers.stages.append(parse_stages(header))
        if not wait_until(lambda: self._is_settled(change), _SETTLE_SECONDS, pause=0.1):
            raise BenchmarkError(f"{change.title}: not in effect after {_SETTLE_SECONDS:.0f} s")

    def _is_settled(self, change: Change) -> bool:
        answer = self._client.get(f"/connectors/{self._name}/status")
        if change.tasks < 0:
            return answer.status_code == 404
        if answer.status_code != 200:
            return False
        body = answer.json()
        states = [task["state"] for task in body["tasks"]]
        running = states.count("RUNNING")
        return body["connector"]["state"] == change.state and running == change.tasks and len(states) >= change.tasks


def measure(stand: Stand, rounds: int, results: Results) -> None:
    """Make all changes `rounds` times on each side, in turn."""
    drivers = {name: Driver(side.url, f"answers-{number}") for number, (name, side) in enumerate(stand.sides.items())}
    try:
        for turn in range(-_WARM_UP, rounds):
            for name, driver in drivers.items():
                for change in CHANGES:
                    into = results[name].setdefault(change, Answers()) if turn >= 0 else Answers()
                    driver.make(change, turn, into)
            print(f"round {turn + 1} of {rounds}", file=sys.stderr, flush=True)
    finally:
        for driver in drivers.values():
            driver.close()


def table(results: Results) -> str:
    """Return medians and 99th percentiles of each side. Pure."""
    names = list(results)
    rows = [
        "| change | " + " | ".join(f"{name}: median | 99 %" for name in names) + " |",
        "|---|" + "--:|--:|" * len(names),
    ]
    for change in results[names[0]]:
        cells = [f"{median(one.ms):.0f} ms | {one.slow:.0f} ms" for one in (results[name][change] for name in names)]
        rows.append(f"| {change.title} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def stage_table(by_change: Mapping[Change, Answers]) -> str:
    """Return the medians of the stages of each change, the longest first. Pure."""
    rows = ["| change | stages |", "|---|---|"]
    for change, answers in by_change.items():
        names = {name for one in answers.stages for name in one}
        medians = {name: median(one.get(name, 0.0) for one in answers.stages) for name in names}
        ordered = sorted(medians.items(), key=lambda pair: -pair[1])
        rows.append(f"| {change.title} | " + ", ".join(f"{name} {ms:.1f}" for name, ms in ordered if ms >= 0.1) + " |")
    return "\n".join(rows)


def page(text: str, machine: Mapping[str, str], rounds: int) -> str:
    """Return the text of benchmarks/results/answers.md."""
    return f"""\
# How soon a change is answered

`make bench ARGS="answers --write"` writes this page. The real Kafka Connect 4.3.0 and Ringfence run side by side on one
broker. In each of {rounds} rounds each change of a VerifiableSource connector is requested by the REST API, on one side
after the other; before the next change, the last one is in effect. The stages are those of Ringfence's header
`Server-Timing`, in milliseconds: `settle` is the wait until the database shows earlier changes, `way` the time in Redis
and Celery.

{text}

{foot(machine)}"""


def main(argv: Sequence[str]) -> int:
    """Return an exit code as in `python -m benchmarks`."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks answers", description=__doc__)
    parser.add_argument("--rounds", type=int, default=30, metavar="N", help="changes of each kind (default: 30)")
    parser.add_argument("--others", type=int, nargs="+", default=[0, 50], metavar="N", help="connectors beside it")
    parser.add_argument("--who", nargs="+", choices=["connect", "ours"], default=["connect", "ours"])
    parser.add_argument("--beside", type=Path, metavar="DIR", help="another checkout, which is measured in turn")
    parser.add_argument("--write", action="store_true", help=f"write docs/{PAGE.name}")
    args = parser.parse_args(argv)
    root = Path(tempfile.mkdtemp(prefix="ringfence-answers-"))
    names = {"connect": CONNECT, "ours": OURS}
    machine, texts = describe() | {"load before the runs": load()}, []
    try:
        for count in args.others:
            sides = [names[who] for who in args.who]
            with Stand(root / str(count), (VERIFIABLE,), slots=count + 20, who=sides) as stand:
                texts.append(_run(stand, root / str(count), args.rounds, count, args.beside))
            print(texts[-1], flush=True)
    except (BenchmarkError, LocalError) as error:
        print(f"benchmarks: {error}\nlogs: {root}", file=sys.stderr)
        return 1
    if args.write:
        PAGE.write_text(page("\n\n".join(texts), machine, args.rounds))
        print(f"written: {PAGE}")
    return 0


def _await_running(rest: Rest, count: int) -> None:
    if not wait_until(lambda: rest.all_running() == count, 300, pause=0.5):
        raise BenchmarkError(f"{count} connectors were not RUNNING")


def _run(stand: Stand, root: Path, rounds: int, others: int, beside: Path | None) -> str:
    create_topics(stand.connection, [TopicSpec(TOPIC)], Deadline.after(30))
    if beside is not None:
        stand.add(BESIDE, RingfenceWorker(root / "beside", stand.bootstrap, slots=others + 20, checkout=beside))
    for side in stand.sides.values():
        with Rest(side.url) as rest:
            for number in range(others):
                rest.create(f"other-{number}", config(1))
            _await_running(rest, others)
    results: Results = {name: {} for name in stand.sides}
    measure(stand, rounds, results)
    parts = [f"## {'One connector' if not others else f'Beside {others} others'}", table(results)]
    for name, by_change in results.items():
        if any(one.stages for one in by_change.values()):
            parts.append(f"Stages of {name}, medians in milliseconds:\n\n{stage_table(by_change)}")
    return "\n\n".join(parts)
