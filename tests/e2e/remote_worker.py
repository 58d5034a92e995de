"""A worker with connections to Kafka and Redis that a test can silence, beside others that it leaves alone."""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil

from ringfence.local.guarded_process import GuardedProcess
from tests.e2e.up import Up
from tests.support.proxy import Fate, Proxied, proxied_kafka
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
