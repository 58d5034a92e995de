"""The ASGI entry point: `uvicorn ringfence.asgi:application`."""

import os

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ringfence.settings")
django.setup(set_prefix=False)

from ringfence.web.handler import PooledHandler  # noqa: E402 - it needs the settings

application = PooledHandler()
