"""The rules of deploy/prometheus on a running platform: a fault is made, and its alert fires.

Each `for` is a second here, and limits are low, so that nobody waits for minutes. Three faults take longer than a test
should, or brokers of their own: a connector that is silent for longer than usual, a round that cannot fence, and a
hanging transaction. What metrics show of those is in `tests/metrics`; that they come to it is shown by
`tests/guarantees/test_permission_revoked.py` and `tests/engine/test_hanging_on_a_broker.py`.
"""

import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e import processes
from tests.e2e.conftest import flows
from tests.e2e.flow import Flow
from tests.e2e.topics import CONFIGS, leader, write
from tests.e2e.up import Up, environment
from tests.support.exchanged_files import exchange
from tests.support.names import unique
from tests.support.prometheus import Prometheus, running
from tests.support.waiting import eventually

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(600)]

RULES = Path(__file__).parents[2] / "deploy" / "prometheus" / "alerts.yml"
LOWER = {"> 600": "> 3", "[30m])) > 6": "[30m])) > 0", "[30m])) > 3": "[30m])) > 0", "[5m]": "[30s]"}
SLOTS = 3
FIRES_SECONDS = 60.0
Make = Callable[..., Flow]
CAST = {"transforms": "n", "transforms.n.type": "Cast$Value", "transforms.n.spec": "int64"}


def quick_rules() -> Any:
    rules = yaml.safe_load(RULES.read_text())
    for group in rules["groups"]:
        for rule in group["rules"]:
            rule["for"] = "1s"
            for usual, low in LOWER.items():
                rule["expr"] = rule["expr"].replace(usual, low)
    return rules


class SmallUp(Up):
    """With few slots."""

    def command(self) -> list[str]:
        return [*super().command(), "--slots", str(SLOTS)]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with SmallUp(tmp_path_factory.mktemp("platform"), workers=2) as up:
        yield up


@pytest.fixture(scope="module")
def prometheus(small: Up, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    scrape = {"job_name": "ringfence", "static_configs": [{"targets": [small.http]}]}
    with running(tmp_path_factory.mktemp("prometheus") / "p", [scrape], quick_rules()) as prometheus:
        yield prometheus


@pytest.fixture
def make(small: Up) -> Iterator[Make]:
    yield from flows(small)


@pytest.fixture
def created(small: Up) -> Iterator[Callable[..., str]]:
    """Creates a connector with this configuration; it is deleted after the test."""
    names: list[str] = []

    def create(prefix: str, config: dict[str, str]) -> str:
        names.append(unique(prefix))
        small.rest.create(names[-1], {"topic": names[-1], **config})
        return names[-1]

    yield create
    for name in names:
        small.rest.settled(204, "DELETE", f"/connectors/{name}")


def await_alerts(prometheus: Prometheus, *alerts: str, **labels: str) -> None:
    """Wait until all of these have fired, with these labels, and their texts are whole."""
    seen: dict[str, Any] = {}

    def fire() -> bool:
        seen.update(prometheus.firing())
        return all(any(labels.items() <= found.items() for found in seen.get(alert, [])) for alert in alerts)

    eventually(fire, FIRES_SECONDS, lambda: f"{alerts} {labels}: {seen}", pause=0.3)
    for text in prometheus.texts(*alerts):
        assert text
        assert not re.search(r"no value|<error|\{\{", text), text


def await_calm(prometheus: Prometheus, *alerts: str) -> None:
    """Wait until none of these fires any more."""
    eventually(lambda: not set(alerts) & set(prometheus.firing()), 90, lambda: str(prometheus.firing()), pause=0.5)


def test_a_web_process_that_hangs(small: Up, prometheus: Prometheus) -> None:
    with processes.frozen([small.pid("web")]):
        await_alerts(prometheus, "RingfenceDown", instance=small.http)
    await_calm(prometheus, "RingfenceDown")


def test_workers_that_hang_and_one_that_comes_back(small: Up, prometheus: Prometheus) -> None:
    led = str(leader(small).worker)
    other = next(name for name in ("worker-1", "worker-2") if name != led)
    with small.frozen([small.pid(led)]):
        with small.frozen([small.pid(other)]):
            await_alerts(prometheus, "RingfenceNoWorker")
        await_alerts(prometheus, "RingfenceNoLeader")
        await_alerts(prometheus, "RingfenceWorkerSilent", problem=f"silent-{led}")
        await_alerts(prometheus, "RingfenceLeaderChanges")
    await_calm(prometheus, "RingfenceNoWorker", "RingfenceNoLeader", "RingfenceWorkerSilent")


def test_a_broker_that_hangs(small: Up, prometheus: Prometheus) -> None:
    with processes.frozen([small.pid("kafka")]):
        await_alerts(prometheus, "RingfenceNoKafka")
    await_calm(prometheus, "RingfenceNoKafka")


def test_redis_that_is_gone(small: Up, prometheus: Prometheus) -> None:
    with processes.frozen([small.lock_holder]):  # else it would be there again at once
        os.kill(small.pid("redis"), signal.SIGKILL)
        await_alerts(prometheus, "RingfenceNoRedis")
    await_calm(prometheus, "RingfenceNoRedis")


def test_a_database_that_takes_nothing_from_the_projection(small: Up, prometheus: Prometheus, make: Make) -> None:
    make()  # there is something to write
    with closing(sqlite3.connect(small.data / "ringfence.sqlite3", isolation_level=None, timeout=30)) as database:
        refuse = "BEFORE UPDATE ON mirror_topicposition BEGIN SELECT RAISE(ABORT, 'no'); END"
        database.execute(f"CREATE TRIGGER refuse {refuse}")
        try:
            await_alerts(prometheus, "RingfenceProjectionBehind")
        finally:
            database.execute("DROP TRIGGER refuse")
    await_calm(prometheus, "RingfenceProjectionBehind")


def test_a_clock_that_is_wrong(small: Up, prometheus: Prometheus) -> None:
    """A process on a clock half a minute ahead tells Redis, as each worker does."""
    tell = (
        "import time\nreal = time.time\ntime.time = lambda: real() + 30\n"
        "from ringfence import redis_clock\n"
        "while True:\n    redis_clock.publish_offset('worker-9')\n    time.sleep(1)\n"
    )
    variables = environment({"RINGFENCE_REDIS_URL": small.redis_url})
    process = subprocess.Popen([sys.executable, "-c", tell], env=variables)
    try:
        await_alerts(prometheus, "RingfenceClocksDiffer")
    finally:
        process.kill()
        process.wait()


def test_more_tasks_than_slots(small: Up, prometheus: Prometheus, created: Callable[..., str]) -> None:
    name = created("many", {"connector.class": "VerifiableSource", "tasks.max": str(2 * SLOTS + 1), "throughput": "1"})
    await_alerts(prometheus, "RingfenceTaskUnassigned", connector=name)
    await_alerts(prometheus, "RingfenceSlotsUsedUp")


def test_a_configuration_that_cannot_be_read(small: Up, prometheus: Prometheus, make: Make) -> None:
    broken = make()
    write(small, CONFIGS, f"connector-{broken.name}".encode(), b"{no json")
    await_alerts(prometheus, "RingfenceConnectorFailed", connector=broken.name)
    broken.configure(tasks=1)
    await_calm(prometheus, "RingfenceConnectorFailed")


def test_records_that_cannot_be_processed(
    small: Up, prometheus: Prometheus, created: Callable[..., str], tmp_path: Path
) -> None:
    file = tmp_path / "lines.txt"
    file.write_text("1\n")
    config = {"connector.class": "FileStreamSource", "file": str(file), **CAST}
    tolerant = {**config, "errors.tolerance": "all"}
    letters = {"errors.deadletterqueue.topic.name": unique("letters")}
    fails, skips, keeps = (
        created("fails", config),
        created("skips", tolerant),
        created("keeps", {**tolerant, **letters}),
    )
    for name in (fails, skips, keeps):  # a counter that begins with a value has not increased
        committed = f'ringfence_connector_records_total{{connector="{name}"}} > 0'
        eventually(partial(prometheus.query, committed), 60, name)
    with file.open("a") as more:
        more.write("no number\n2\n")
    await_alerts(prometheus, "RingfenceTaskFailed", connector=fails)
    await_alerts(prometheus, "RingfenceRecordsSkipped", connector=skips)
    await_alerts(prometheus, "RingfenceDeadLetters", connector=keeps)
    await_alerts(prometheus, "RingfenceTaskRestarts", connector=fails, task="0")


def test_a_source_that_is_gone(small: Up, prometheus: Prometheus, created: Callable[..., str], tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "a.txt").write_text("one\n")
    files = {"connector.class": "FilesSource", "url": f"file://{folder}", "format": "text", "poll.interval.ms": "500"}
    name = created("gone", files)
    eventually(lambda: small.rest.expect(200, "GET", f"/connectors/{name}/offsets")["offsets"], 60, "it reads")
    folder.rename(tmp_path / "aside")
    await_alerts(prometheus, "RingfenceConnectorRetrying", connector=name, health="retrying")


def test_a_transaction_that_stays_open(small: Up, prometheus: Prometheus, make: Make) -> None:
    slow = make(interval_ms=20_000)
    await_alerts(prometheus, "RingfenceTransactionOpen", connector=slow.name, task="0")


def test_a_database_that_is_gone(small: Up, prometheus: Prometheus) -> None:
    file = small.data / "ringfence.sqlite3"
    aside = file.with_suffix(".aside")
    aside.mkdir()
    small.rest.expect(200, "GET", "/connectors")
    exchange(file, aside)
    try:
        for _ in range(20):
            assert small.rest.call("GET", "/connectors").status_code == 503
    finally:
        exchange(file, aside)
        aside.rmdir()
    await_alerts(prometheus, "RingfenceWebErrors", instance=small.http)


def test_requests_that_wait_for_a_leader_that_hangs(small: Up, prometheus: Prometheus, make: Make) -> None:
    one = make()
    workers = [small.pid("worker-1"), small.pid("worker-2")]
    with small.frozen(workers), ThreadPoolExecutor(8) as senders:
        refused = [senders.submit(small.rest.call, "PUT", f"/connectors/{one.name}/pause") for _ in range(8)]
        assert {answer.result().status_code for answer in refused} <= {500, 503}
        await_alerts(prometheus, "RingfenceWebSlow", instance=small.http)


def test_every_rule_has_a_fault_here_or_in_the_metrics() -> None:
    here = set(re.findall(r'"(Ringfence\w+)"', Path(__file__).read_text()))
    rows = Path(__file__).parents[1] / "metrics" / "test_alerts.py"
    there = set(re.findall(r'"(Ringfence\w+)"', rows.read_text()))
    rules = {rule["alert"] for group in quick_rules()["groups"] for rule in group["rules"]}
    assert here | there >= rules
