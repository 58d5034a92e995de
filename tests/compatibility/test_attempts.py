"""Attempts of a task end with the process that has started them, however that one ends."""

import signal
import subprocess
import sys

import pytest

from ringfence.fencing.ids import ConnectorName, Generation, Incarnation, TaskId, WorkerId
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.task.task_spec import TaskSpec
from ringfence.fencing.topics.connector_state import Placement
from ringfence.fencing.topics.topic_ids import Topics
from ringfence.testing.connector_run import AttemptProcess

HOLDS_THE_INTERPRETER = """
import ctypes, sys
from ringfence.testing.attempt_process import end_with_parent
sys.stdin.readline()
end_with_parent()
print("ready", flush=True)
ctypes.PyDLL(None).sleep(600)
"""


@pytest.mark.parametrize("frozen", [False, True], ids=["holds the interpreter", "frozen"])
def test_an_attempt_that_does_nothing_any_more_ends_with_its_parent(frozen: bool) -> None:
    command = [sys.executable, "-c", HOLDS_THE_INTERPRETER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write("a specification\n")
            process.stdin.flush()
            assert process.stdout.readline() == "ready\n"
            if frozen:
                process.send_signal(signal.SIGSTOP)
            process.stdin.close()
            assert process.wait(60) == -signal.SIGKILL
        finally:
            process.kill()


def test_an_attempt_ends_with_its_parent() -> None:
    nowhere = Connection("127.0.0.1:1")
    placement = Placement(WorkerId("w"), Incarnation("i"), 1, Generation(1))
    task = TaskId(ConnectorName("c"), 0)
    attempt = AttemptProcess(TaskSpec(nowhere, "g", Topics("c", "o", "s", "e"), task, placement, "a.B", {}, {}, {}))
    try:
        attempt._lifeline.close()
        assert attempt._process.wait(60) == -signal.SIGKILL
    finally:
        attempt.close()
