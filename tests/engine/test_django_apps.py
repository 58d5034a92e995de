"""What listens to a worker's log goes on listening, whoever sets Django up again."""

from tests.support.scripts import run_script

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
    run_script(PROGRAM)
