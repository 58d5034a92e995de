"""Loads Django's registry of applications in a process that is not a web process."""

import threading
from typing import Final

import django
from django.apps import apps
from django.conf import settings

_lock: Final = threading.Lock()


def load() -> None:
    """Load it once per process. Each `django.setup` configures logging again, and removes handlers that were added
    since, Celery's among them; so later calls do nothing.
    """
    with _lock:
        if not apps.ready:
            django.setup()
            settings.LOGGING_CONFIG = None
