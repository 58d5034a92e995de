"""The ASGI entry point: `uvicorn ringfence.asgi:application`."""

import os

import django

from ringfence.crashes import tell_crashes

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ringfence.settings")
tell_crashes()
django.setup(set_prefix=False)

from ringfence.web.asgi_handler import PooledHandler  # noqa: E402 - it needs the settings

application = PooledHandler()
