"""A run of a share group's tasks under trouble, from the first record to the verdict."""

import os
import threading
import time
from collections import Counter
from collections.abc import Callable

from tests.guarantees.share_monkey import ShareMonkey
from tests.guarantees.shares import Queue
from tests.support.waiting import eventually

TROUBLED = {
    "share_lock_ms": "1000",
    "share_delivery_limit": "2",
    "share_sweep_after_ms": "4000",
    "share_claim_timeout_ms": "1000",
    "batch_size": "200",
}
_RECORDS_S = 100


def chaos(
    queue: Queue,
    mode: str,
    seed: int,
    seconds: float,
    tasks: int = 3,
    trouble: Callable[[ShareMonkey, float], None] | None = None,
) -> tuple[int, int]:
    """Missing records, and records that are there too often. trouble(monkey, until): in place of `monkey.run`."""
    records = int(seconds * _RECORDS_S)
    print(f"Seed {seed}, {seconds:g} s, {records} records, {mode}", flush=True)
    queue.configure(tasks, queue.settings(**TROUBLED))
    enough = threading.Event()
    how = {"pause_s": 0.5, "aborted": 5, "enough": enough}
    feeder = threading.Thread(target=queue.feed, args=(range(records),), kwargs=how)
    feeder.start()
    monkey = ShareMonkey(queue, seed, mode)
    monkey.start(tasks)
    if trouble is None:
        monkey.run(seconds)
    else:
        trouble(monkey, time.monotonic() + seconds)
    enough.set()
    feeder.join(240)
    assert not feeder.is_alive(), "the input was not written in time"
    assert queue.fed > records / 10, f"only {queue.fed} of {records} records were written"
    monkey.calm()

    def read_input() -> Counter[bytes]:
        """All of it: the marker of the last commit is written after its answer."""
        given = queue.read(queue.source)
        return given if len([value for value in given if b"aborted" not in value]) == queue.fed else Counter()

    given = eventually(read_input, 30, f"{queue.fed} records of the input")

    def all_there() -> bool:
        seen = queue.visible()
        return not given - seen

    def what_lacks() -> str:
        return f"of the input: {list((given - queue.visible()).items())[:5]}, tasks {queue.states()}"

    eventually(all_there, 120, what_lacks, pause=1)
    states = eventually(lambda: _all_running(queue), 60, lambda: f"all RUNNING: {queue.states()}", pause=0.5)
    queue.end()
    verdict = queue.verdict()
    load = "/".join(f"{each:.0f}" for each in os.getloadavg())
    told = f"{queue.fed} records, missing {verdict[0]}, too often {verdict[1]}, load {load}"
    print(dict(monkey.done), states, told, flush=True)
    return verdict


def _all_running(queue: Queue) -> dict[int, str]:
    states = queue.states()
    return states if states == dict.fromkeys(range(queue.tasks), "RUNNING") else {}
