"""`python -m benchmarks hooks`: how fast WebhookSource answers, and thus commits, at several request rates."""

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from benchmarks.command import new_folder, new_parser, write_page
from benchmarks.hook_senders import SenderResult
from benchmarks.machine import describe, foot, load
from benchmarks.rest import BenchmarkError, Rest
from benchmarks.stand import OURS, Stand
from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.fencing.topics.topic_log import TopicLog
from ringfence.local.guarded_process import wait_until

PAGE: Final = Path(__file__).resolve().parent / "results" / "hooks.md"
RATES: Final = (200, 500, 1000, 2000)
TARGET_RATE, TARGET_MS = 2000, 50.0


def measure(stand: Stand, rest: Rest, rate: int, seconds: float) -> tuple[SenderResult, int]:
    """Return the senders' result, and the number of records that a read_committed consumer gets."""
    name = f"hook-{rate}"
    create_topics(stand.connection, [TopicSpec(name)], Deadline.after(30))
    rest.create(name, _config(name))
    if not wait_until(lambda: rest.running(name) == 1, 60.0):
        raise BenchmarkError(f"{name} does not run: {rest.trouble(name)}")
    port = str(urlsplit(stand.sides[OURS].url).port)
    _send(port, name, 50, 3)  # warms up the connection and the window
    before = _count(stand, name)
    result = _send(port, name, rate, seconds)
    received = _count(stand, name) - before
    rest.delete(name)
    return result, received


def _send(port: str, name: str, rate: int, seconds: float) -> SenderResult:
    command = [sys.executable, "-m", "benchmarks.hook_senders", port, name, str(rate), str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 90, check=False)
    if done.returncode:
        raise BenchmarkError(done.stderr[-2000:])
    return SenderResult(**json.loads(done.stdout))


def _count(stand: Stand, topic: str) -> int:
    log = TopicLog(stand.connection, topic)
    try:
        return sum(1 for _ in log.read_to_end(Deadline.after(60)))
    finally:
        log.close()


def _config(topic: str) -> dict[str, str]:
    return {
        "connector.class": "WebhookSource",
        "tasks.max": "1",
        "topic": topic,
        "signature": "bearer",
        "signature.secret": "opensesame",
        "idempotency.key": "header:Idempotency-Key",
        "exactly.once.support": "required",
        "body.format": "text",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    }


def table(results: Mapping[int, tuple[SenderResult, int]]) -> str:
    rows = [
        "| requests/s | p50 | p99 | answered 200 | other answers | cut or not sent | records |",
        "|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for rate, (result, records) in results.items():
        ok = result.statuses.get("200", 0)
        rows.append(
            f"| {rate:,} | {result.p50:.0f} ms | {result.p99:.0f} ms | {ok:,} | {sum(result.statuses.values()) - ok:,} "
            f"| {result.cut + result.late:,} | {records:,} |"
        )
    return "\n".join(rows)


def page(results: Mapping[int, tuple[SenderResult, int]], machine: Mapping[str, str], seconds: float) -> str:
    """Return the text of benchmarks/results/hooks.md."""
    result = results[TARGET_RATE][0]
    return f"""\
# Webhooks

`make bench ARGS="hooks --write"` writes this page. Requests of 240 bytes with an idempotency key are due at a fixed
rate for {seconds:.0f} s, whatever became of those before. A latency counts from when a request was due to its answer,
which comes after the commit. One connector with one task; everything runs on one machine: senders, web process, task,
broker.

{table(results)}

Target: a p99 under {TARGET_MS:.0f} ms at {TARGET_RATE:,} requests/s. Measured: {result.p99:.0f} ms.

{foot(machine)}
"""


def main(argv: Sequence[str]) -> int:
    """Return an exit code as in `python -m benchmarks`."""
    parser = new_parser("hooks", __doc__, PAGE)
    parser.add_argument("--seconds", type=float, default=15.0, help="of each rate (15)")
    parser.add_argument("--rates", type=int, nargs="*", default=list(RATES), help="requests a second")
    args = parser.parse_args(argv)
    machine = describe() | {"load before the runs": load()}
    results: dict[int, tuple[SenderResult, int]] = {}
    with new_folder("hooks") as root, Stand(root, who=(OURS,)) as stand, Rest(stand.sides[OURS].url) as rest:
        for rate in args.rates:
            results[rate] = measure(stand, rest, rate, args.seconds)
            print(f"{rate}/s {results[rate]}", flush=True)
    shutil.rmtree(root)
    print(table(results))
    if args.write:
        write_page(PAGE, page(results, machine, args.seconds))
    return 0
