"""A process that answers commands and questions as a worker does, on a clock that is wrong: `… OFFSET_SECONDS NAME`."""

import sys
import threading
import time

_real = time.time
_offset = float(sys.argv[1])
time.time = lambda: _real() + _offset  # before anything of ours is imported

from typing import Any, cast  # noqa: E402

from ringfence import redis_clock  # noqa: E402
from ringfence.celery import app  # noqa: E402
from ringfence.engine import celery_tasks as tasks  # noqa: E402
from ringfence.engine.celery_tasks import Services  # noqa: E402
from ringfence.fencing.clock import Deadline  # noqa: E402


class Commands:
    """Says how long its caller still waits; `sleep` in the body comes first."""

    def execute(self, command: dict[str, Any], limit: Deadline) -> dict[str, object]:
        return {"ok": True, "value": {"left": limit.remaining, "expired": limit.expired}}


class Plugins:
    call_seconds = 10.0

    def plugins(self, timeout: float | None = None) -> list[dict[str, str]]:
        return [{"class": "X"}]


tasks.provide(cast(Services, type("Services", (), {"commands": Commands(), "plugins": Plugins()})()))


def tell() -> None:
    while True:
        redis_clock.publish_offset(sys.argv[2])
        time.sleep(redis_clock.TOLD_SECONDS)


threading.Thread(target=tell, daemon=True).start()
worker = app.Worker(pool="threads", concurrency=2, queues=["leader", "plugins"], loglevel="WARNING", quiet=True)
worker.start()
