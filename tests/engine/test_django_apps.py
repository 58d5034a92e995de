"""What listens to a worker's log goes on listening, whoever sets Django up again."""

import subprocess
import sys

from tests.e2e.up import environment

PROGRAM = """
import logging
from ringfence import django_apps

django_apps.load()
heard = []

class Listener(logging.Handler):
    def emit(self, record):
        heard.append(record.getMessage())

logging.getLogger().addHandler(Listener())
import django
django_apps.load()
django.setup()  # as Celery does when its worker starts
logging.getLogger("ringfence.engine").warning("here")
assert heard == ["here"], heard
"""


def test_a_handler_stays() -> None:
    told = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment({"DJANGO_SETTINGS_MODULE": "ringfence.settings"}),
        check=False,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert told.returncode == 0, told.stderr
