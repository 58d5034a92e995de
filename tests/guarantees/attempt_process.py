"""One attempt of a task as an executor runs it, in a process of its own: `python -m tests.guarantees.attempt_process`.

The specification comes on standard input, since it holds the connector's secrets; the outcome goes to standard output.
"""

import sys

from ringfence.engine.spark.task_process import run_task

if __name__ == "__main__":
    print(run_task(sys.stdin.readline()), flush=True)
