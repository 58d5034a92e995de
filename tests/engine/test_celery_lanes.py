"""The Celery applications of a worker's lanes."""

import subprocess
import sys

from tests.e2e.up import environment

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
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT],
        env=environment({"DJANGO_SETTINGS_MODULE": "ringfence.settings"}),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "ringfence.leader.command" in done.stdout.split()
