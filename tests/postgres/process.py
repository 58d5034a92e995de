"""One attempt of a task in a process of its own, to be killed. It reads its spec from stdin."""

import logging
import sys

from ringfence.engine.spark.task_process import run_task

if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    print(run_task(sys.stdin.read()), flush=True)
