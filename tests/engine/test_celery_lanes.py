"""The Celery applications of a worker's lanes."""

from tests.support.scripts import run_script

_SCRIPT = """
import warnings

import django

django.setup()
from celery.exceptions import DuplicateTaskNameWarning
from ringfence.alerts import tasks
from ringfence.celery import app, application
from ringfence.engine import celery_tasks

warnings.simplefilter("error", DuplicateTaskNameWarning)
app.finalize()
lanes = [application() for _ in range(3)]
for lane in lanes:
    lane.finalize()
for lane in lanes:
    assert set(lane.tasks) == set(app.tasks)
    assert all(task.app is lane for task in lane.tasks.values())
print(*app.tasks)
"""


def test_each_lane_has_all_tasks_and_no_duplicates() -> None:
    """In a process of its own: the real tasks would take the names that other tests register."""
    assert "ringfence.leader.command" in run_script(_SCRIPT).split()


_COMMANDS = """
import threading
import time
import types

import django

django.setup()
from ringfence.engine import celery_tasks
from ringfence.engine.celery_host import COMMAND_THREADS
from ringfence.fencing.clock import Deadline

go, running = threading.Event(), threading.Semaphore(0)

def execute(command, limit):
    if command["user"] == "slow":
        running.release()
        go.wait(60)
    return {"ok": True, "offset": 3}

celery_tasks.provide(types.SimpleNamespace(commands=types.SimpleNamespace(execute=execute)))
celery_tasks._limit = Deadline.after
answers = []

def send(user):
    answers.append(celery_tasks.command({"kind": "pause", "connector": "c", "user": user}, 60.0))

threads = [threading.Thread(target=send, args=("slow",)) for _ in range(COMMAND_THREADS)]
for thread in threads:
    thread.start()
for _ in range(COMMAND_THREADS // 2):
    assert running.acquire(timeout=30)
while len(answers) < COMMAND_THREADS // 2:
    time.sleep(0.01)
assert not running.acquire(timeout=0.2), "no more than half"
refused = list(answers)
assert all(not each["ok"] for each in refused), refused
for user in ("other", ""):
    send(user)
    assert answers[-1]["ok"] is True, answers[-1]
go.set()
for thread in threads:
    thread.join()
send("slow")
assert answers[-1]["ok"] is True, "their places are free again"
assert answers[-1]["noted"] is True, "where it has written is stored with the answer"
print(refused[0])
"""


def test_one_accounts_commands_leave_half_of_the_threads_to_others() -> None:
    """The leader's, whatever its commands wait for. The web process sends the refused ones again."""
    assert "already carries out 12 commands of your account" in run_script(_COMMANDS)
