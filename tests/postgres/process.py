"""One attempt of a task in a process of its own, to be killed. It reads its spec from stdin.

Arguments name hooks: `slow` lets a snapshot take its time, `unfiltered` and `windowless` are controls of what the
stream leaves out.
"""

import logging
import sys
import time
from typing import Any

from ringfence.connectors.builtin.postgres.snapshot_content import SnapshotContent, Window
from ringfence.connectors.builtin.postgres.snapshot_reading import RangeReading
from ringfence.engine.spark.task_process import run_task


def slow_down() -> None:
    take = RangeReading.take

    def slowly(self: RangeReading, limit: int, seconds: float) -> Any:
        time.sleep(0.1)
        return take(self, limit, seconds)

    RangeReading.take = slowly  # type: ignore[method-assign]


def leave_nothing_out() -> None:
    SnapshotContent.remainder = lambda self, change, message, xid: change  # type: ignore[method-assign]


def forget_the_window() -> None:
    Window.note = lambda self, change, message, xid, records: None  # type: ignore[method-assign]


HOOKS = {"windowless": forget_the_window, "slow": slow_down, "unfiltered": leave_nothing_out}

if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    for hook in sys.argv[1:]:
        HOOKS[hook]()
    print(run_task(sys.stdin.read()), flush=True)
