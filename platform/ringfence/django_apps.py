"""Django's registry of applications in a process that is no web process."""

import threading
from typing import Final

import django
from django.apps import apps
from django.conf import settings

_lock: Final = threading.Lock()


def load() -> None:
    """Once in a process. Each `django.setup` configures logging again, and drops the handlers that were added since:
    the later ones, Celery's own among them, leave it alone.
    """
    with _lock:
        if not apps.ready:
            django.setup()
            settings.LOGGING_CONFIG = None
