"""The ASGI entry point: `uvicorn ringfence.asgi:application`."""

import os
import warnings

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ringfence.settings")

# WhiteNoise hands out files as synchronous iterators. Ours are small, and a browser asks once an hour.
warnings.filterwarnings("ignore", message="StreamingHttpResponse must consume synchronous iterators")

application = get_asgi_application()
