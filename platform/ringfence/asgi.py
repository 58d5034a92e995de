"""The ASGI entry point: `uvicorn ringfence.asgi:application`."""

import os

import django

from ringfence import telemetry
from ringfence.crashes import enable_crash_reports

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ringfence.settings")
enable_crash_reports()
telemetry.import_redis()
django.setup(set_prefix=False)

from django.conf import settings  # noqa: E402 - they need the settings

from ringfence.environment import serve_requests  # noqa: E402
from ringfence.lock_waits import limit_lock_waits  # noqa: E402
from ringfence.web.asgi_handler import PooledHandler  # noqa: E402

serve_requests(settings.DATABASES["default"])
limit_lock_waits()

application = PooledHandler()
