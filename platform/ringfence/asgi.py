"""The ASGI entry point: `uvicorn ringfence.asgi:application`."""

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ringfence.settings")

application = get_asgi_application()
