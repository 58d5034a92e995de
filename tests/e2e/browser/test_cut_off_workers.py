"""One worker loses its way to Kafka or to Redis: every page says which one within 15 seconds, and no record is lost."""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from playwright.sync_api import Page, expect

from ringfence.local.guarded_process import GuardedProcess
from tests.e2e.browser.conftest import Visitors
from tests.e2e.browser.facts import await_more_records, state
from tests.e2e.browser.visitor import NARROW
from tests.e2e.conftest import await_calm
from tests.e2e.flow import Flow
from tests.e2e.machine import promised
from tests.e2e.up import Up
from tests.support.proxy import Fate, Proxied, proxied_kafka
from tests.support.waiting import eventually
from tests.support.wire import Wire

NAME = "worker-2"
_ALL = 10**9


class RemoteWorker:
    """The second worker of `up`, its settings those of the first but for the two addresses."""

    def __init__(self, up: Up, kafka: Proxied) -> None:
        self._kafka = kafka
        self.redis = Wire(up.redis_port)
        password = (up.data / "redis-password").read_text().strip()
        settings = psutil.Process(up.pid("worker-1")).environ() | {
            "CONNECT_BOOTSTRAP_SERVERS": kafka.through.bootstrap,
            "RINGFENCE_REDIS_URL": f"redis://:{password}@127.0.0.1:{self.redis.port}/0",
        }
        self._process = GuardedProcess.start(
            NAME,
            [sys.executable, "-m", "ringfence.cli", "worker", "--id", NAME, "--slots", "8"],
            log=up.data / "logs" / f"{NAME}.log",
            env=settings,
            cwd=up.data,
            pid_file=up.data / "run" / f"{NAME}.pid",
        )
        up.workers = 2

    @contextlib.contextmanager
    def without_kafka(self) -> Iterator[None]:
        """None of its requests arrives, and nobody says so."""
        self._kafka.proxy.set_trap(lambda _: True, Fate.SILENCE, _ALL)
        try:
            yield
        finally:
            self._kafka.proxy.clear()

    def without_redis(self) -> contextlib.AbstractContextManager[None]:
        return self.redis.silent()

    def end(self) -> None:
        """With all that it has started."""
        self._process.stop(60)
        self.redis.close()


@contextlib.contextmanager
def platform_with_a_remote_worker(root: Path) -> Iterator[tuple[Up, RemoteWorker]]:
    """On a broker of its own. worker-1, web and Redis are on this side of the lines."""
    one_broker = {f"CONNECT_{topic}_STORAGE_REPLICATION_FACTOR": "1" for topic in ("CONFIG", "OFFSET", "STATUS")}
    with proxied_kafka(root) as kafka:
        up = Up(root / "platform", settings={"CONNECT_BOOTSTRAP_SERVERS": kafka.direct.bootstrap, **one_broker})
        up.kafka_port = kafka.kafka.port
        with up:
            worker = RemoteWorker(up, kafka)
            try:
                yield up, worker
            finally:
                worker.end()


pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

Make = Callable[..., Flow]
Note = Callable[[str, float], None]
SAID_WITHIN_SECONDS = 15.0
ANSWERED_WITHIN_SECONDS = 5.0
AGAIN_MS = 90_000


@pytest.fixture(scope="module")
def parted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Up, RemoteWorker]]:
    with platform_with_a_remote_worker(tmp_path_factory.mktemp("parted")) as both:
        yield both


@pytest.fixture
def platform(parted: tuple[Up, RemoteWorker]) -> Up:
    """In place of the shared one, whose workers share their lines."""
    await_calm(parted[0])
    return parted[0]


@pytest.fixture
def remote(parted: tuple[Up, RemoteWorker]) -> RemoteWorker:
    return parted[1]


def open_pages(visitors: Visitors, name: str) -> list[Page]:
    """With a stream and without one, wide and narrow, light and dark."""
    ann, bob, eve = visitors(), visitors(width=NARROW, theme="dark"), visitors()
    pages = [ann.go(f"/ui/connectors/{name}"), bob.go("/ui/connectors"), eve.go("/ui/incidents")]
    ann.await_live()
    bob.await_live()
    return pages


def await_problem(pages: list[Page], key: str, words: str) -> float:
    """Seconds until each page's head says it."""
    began = time.monotonic()
    for page in pages:
        expect(page.locator(f'[data-problem="{key}"]')).to_contain_text(words)
    return time.monotonic() - began


def await_calm_head(pages: list[Page]) -> None:
    for page in pages:
        expect(page.locator("[data-problem]")).to_have_count(0, timeout=AGAIN_MS)


def make_leader(platform: Up, worker: str) -> None:
    """Kill whoever leads until this one does; the others come back."""

    def leads() -> bool:
        found = {one["worker"]: one["leads"] for one in platform.rest.expect(200, "GET", "/api/v1/workers")["results"]}
        if not found.get(worker) and any(found.values()):
            os.kill(platform.pid(next(name for name in found if found[name])), signal.SIGKILL)
        return bool(found.get(worker))

    eventually(leads, 90, f"{worker} leads", pause=10.0)
    await_calm(platform)


def pause_and_resume(page: Page) -> None:
    """Of a connector whose records go on, by its page."""
    state(page, "Healthy")
    await_more_records(page)
    page.locator("#do-pause").click()
    expect(page.locator("#notices")).to_contain_text("Pause requested")
    state(page, "Paused")
    page.locator("#do-resume").click()
    state(page, "Healthy")


def test_a_worker_is_cut_off_from_kafka(
    visitors: Visitors, platform: Up, remote: RemoteWorker, flow: Make, stopwatch: Note
) -> None:
    make_leader(platform, "worker-1")
    one = flow(tasks=2, throughput=50)
    pages = open_pages(visitors, one.name)
    assert {one.worker_of(0), one.worker_of(1)} == {"worker-1", NAME}
    with remote.without_kafka():
        began = time.monotonic()
        said = await_problem(pages, f"no-kafka-{NAME}", f"{NAME} does not reach Kafka")
        stopwatch("said by every page", said)
        assert said < promised(SAID_WITHIN_SECONDS)
        stopwatch("both tasks write again", one.await_progress(since=began, timeout=90))
        pause_and_resume(pages[0])
    await_calm_head(pages)
    one.settle()


def test_a_worker_is_cut_off_from_redis(
    visitors: Visitors, platform: Up, remote: RemoteWorker, flow: Make, stopwatch: Note
) -> None:
    """Its tasks need no Redis, and the leader takes commands."""
    make_leader(platform, "worker-1")
    one = flow(tasks=2, throughput=50)
    pages = open_pages(visitors, one.name)
    with remote.without_redis():
        said = await_problem(pages, f"no-redis-{NAME}", f"{NAME} does not reach Redis")
        stopwatch("said by every page", said)
        assert said < promised(SAID_WITHIN_SECONDS)
        pause_and_resume(pages[0])
    await_calm_head(pages)
    one.settle()


def test_the_leader_is_cut_off_from_redis(
    visitors: Visitors, platform: Up, remote: RemoteWorker, flow: Make, stopwatch: Note
) -> None:
    """Commands reach it over Redis: each is refused at once, and soon the other worker leads and takes them."""
    make_leader(platform, NAME)
    one = flow(tasks=2, throughput=50)
    pages = open_pages(visitors, one.name)
    with remote.without_redis():
        began = time.monotonic()
        said = await_problem(pages, f"no-redis-{NAME}", f"{NAME} does not reach Redis")
        stopwatch("said by every page", said)
        assert said < promised(SAID_WITHIN_SECONDS)

        def taken() -> bool:
            asked = time.monotonic()
            answer = platform.rest.call("PUT", f"/connectors/{one.name}/pause")
            assert time.monotonic() - asked < promised(ANSWERED_WITHIN_SECONDS)
            assert answer.status_code in (202, 409, 503), answer.text
            return bool(answer.status_code == 202)

        eventually(taken, 90, "a command is taken", pause=0.5)
        stopwatch("a command was taken", time.monotonic() - began)
        state(pages[0], "Paused")
        pages[0].locator("#do-resume").click()
        state(pages[0], "Healthy")
        await_more_records(pages[0])
    await_calm_head(pages)
    one.settle()
