"""`python -m benchmarks neighbours`: how long pause, fence and health take beside slow requests of other users.

Clients request preflights of a cluster that never answers (six seconds each), again and again, so that the web process
handles as many as it allows; the rest are refused with 429. At the same time, one connector is paused, resumed and
fenced, and the health is requested. The exit code is 1 if the 99th percentile of one of them exceeds its limit.
"""

import shutil
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles
from typing import Final

import httpx

from benchmarks.command import new_folder, new_parser, write_page
from benchmarks.machine import describe, foot, load
from benchmarks.ours import RingfenceWorker
from benchmarks.rest import BenchmarkError, Rest
from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.local.guarded_process import wait_until
from ringfence.local.kafka import EmbeddedKafka
from ringfence.local.ports import free_port

SLOW: Final = 64
SAMPLES: Final = 200
MOST_S: Final = 45.0
"""Each of the two runs ends after this time, with the rounds that it has."""
LIMIT_S: Final = 0.5
NAME: Final = "urgent"
PAGE: Final = Path(__file__).resolve().parent / "results" / "neighbours.md"
_AT_ONCE: Final = {"RINGFENCE_QUERIES_PER_ACCOUNT": "24"}
"""The limits for all accounts together: without a login there is only one account."""
_REFUSED_PAUSE_S: Final = 0.5


@dataclass(slots=True)
class Pressure:
    """The results of the slow requests. answered: by HTTP status; 0 for no response."""

    answered: Counter[int] = field(default_factory=Counter)
    seconds: float = 0.0


@contextmanager
def pressure(url: str, clients: int) -> Iterator[Pressure]:
    """Run clients that request slow preflights inside the block, continuously."""
    result, stop, lock = Pressure(), threading.Event(), threading.Lock()
    nowhere = socket.create_server(("127.0.0.1", 0), backlog=4096)
    config = {"connector.class": "VerifiableSource", "name": "slow", "topic": "slow"}
    config["producer.override.bootstrap.servers"] = f"127.0.0.1:{nowhere.getsockname()[1]}"

    def ask() -> None:
        with httpx.Client(base_url=url, timeout=100) as client:
            while not stop.is_set():
                try:
                    status = client.put("/api/v1/preflight", json=config).status_code
                except httpx.HTTPError:
                    status = 0
                with lock:
                    result.answered[status] += 1
                if status != 200:
                    stop.wait(_REFUSED_PAUSE_S)

    threads = [threading.Thread(target=ask, daemon=True) for _ in range(clients)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    time.sleep(2.0)
    try:
        yield result
    finally:
        result.seconds = time.monotonic() - began
        stop.set()
        for thread in threads:
            thread.join(100)
        nowhere.close()


def sample(url: str, rounds: int) -> dict[str, list[float]]:
    """Return the seconds of each request; fewer rounds if they take longer than `MOST_S`."""
    path = f"/connectors/{NAME}"
    fence = {"reason": "a benchmark", "wait": False}
    took: dict[str, list[float]] = {"pause": [], "resume": [], "fence": [], "health": []}
    with httpx.Client(base_url=url, timeout=100) as client:
        calls: dict[str, Callable[[], httpx.Response]] = {
            "pause": lambda: client.put(f"{path}/pause"),
            "resume": lambda: client.put(f"{path}/resume"),
            "fence": lambda: client.post(f"/api/v1{path}/fence", json=fence),
            "health": lambda: client.get("/health"),
        }
        until = time.monotonic() + MOST_S
        for _ in range(rounds):
            if time.monotonic() > until:
                break
            for name, call in calls.items():
                began = time.monotonic()
                answer = call()
                took[name].append(time.monotonic() - began)
                if answer.status_code not in (200, 202):
                    raise BenchmarkError(f"{name}: {answer.status_code} {answer.text[:500]}")
    return took


def percentile_99(seconds: Sequence[float]) -> float:
    """Return the 99th percentile, never below a measured value that is slower than 99 of 100."""
    return quantiles(seconds, n=100, method="inclusive")[98] if len(seconds) > 1 else seconds[0]


def table(alone: Mapping[str, Sequence[float]], beside: Mapping[str, Sequence[float]]) -> str:
    """Return milliseconds."""
    rows = [
        "| request | alone: median | 99 % | longest | beside slow preflights: median | 99 % | longest |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for name in alone:
        cells = [
            f"{1000 * value:,.0f} ms"
            for each in (alone[name], beside[name])
            for value in (median(each), percentile_99(each), max(each))
        ]
        rows.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(rows)


def page(measured: str, text: str, machine: Mapping[str, str], verdict: str) -> str:
    """Return the text of benchmarks/results/neighbours.md."""
    return f"""\
# What slow questions cost others

`make bench ARGS="neighbours --write"` writes this page. {SLOW} clients ask for preflights of a cluster that never
answers, again and again. In the meantime one connector is paused, resumed and fenced, and `/health` is asked for.
`fence` is answered when the leader has accepted it (`"wait": false`): the round itself takes as long as its tasks do.
The web process allows one account {_AT_ONCE["RINGFENCE_QUERIES_PER_ACCOUNT"]} queries at once, as many as all
together, instead of 12.

{measured}

{text} The limit is {LIMIT_S:g} s at the 99th percentile{verdict}.

{foot(machine)}"""


def main(argv: Sequence[str]) -> int:
    """Exit codes: 0 all limits are kept, 1 one is not, or it could not be measured."""
    parser = new_parser("neighbours", __doc__, PAGE)
    parser.add_argument(
        "--rounds", type=int, default=SAMPLES, metavar="N", help=f"of each request (default: {SAMPLES})"
    )
    args = parser.parse_args(argv)
    before = load()
    with new_folder("neighbours") as root, ExitStack() as stack:
        kafka = EmbeddedKafka(root / "kafka", free_port(), root / "kafka.log")
        stack.callback(shutil.rmtree, root / "kafka", ignore_errors=True)
        stack.callback(kafka.kill)
        side = RingfenceWorker(root / "ringfence", kafka.bootstrap, settings=_AT_ONCE)
        stack.callback(side.stop)
        kafka.start()
        create_topics(Connection(kafka.bootstrap), [TopicSpec(NAME)], Deadline.after(30))
        side.start()
        with Rest(side.url) as rest:
            rest.create(
                NAME, {"connector.class": "VerifiableSource", "tasks.max": "1", "topic": NAME, "throughput": "10"}
            )
            if not wait_until(lambda: rest.running(NAME) == 1, 60):
                raise BenchmarkError("the connector did not start")
        sample(side.url, 5)
        alone = sample(side.url, args.rounds)
        with pressure(side.url, SLOW) as slow:
            beside = sample(side.url, args.rounds)
    answered, refused = slow.answered[200], slow.answered[429]
    machine = {**describe(), "load before the runs": before, "load after the runs": load()}
    summary = (
        f"{len(alone['health'])} rounds alone, {len(beside['health'])} beside. In {slow.seconds:.0f} s, "
        f"{answered} preflights were answered and {refused} refused (429)."
    )
    print(f"load before the runs {before}\n{table(alone, beside)}\n{summary}", flush=True)
    if not slow.answered[200] or slow.answered[0]:
        print(f"benchmarks: the slow preflights had unexpected results: {dict(slow.answered)}", file=sys.stderr)
        return 1
    within_limits = all(percentile_99(each) < LIMIT_S for each in beside.values())
    verdict = ": kept" if within_limits else ": not kept on this machine, at the load below"
    if args.write:
        write_page(PAGE, page(table(alone, beside), summary, machine, verdict))
    return 0 if within_limits else 1
