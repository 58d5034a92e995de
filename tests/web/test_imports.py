"""What a web process loads: only what its pages and answers need. The rest would cost half of its start, and memory."""

import subprocess
import sys

from tests.e2e.up import environment

NEEDS = "a process that loads Django with other settings"

HEAVY = (
    "kafka",
    "confluent_kafka",
    "httpx",
    "requests",
    "psycopg",
    "authlib",
    "joserfc",
    "markdown_it",
    "psutil",
    "pyspark",
)
SCRIPT = f"""
import sys
import ringfence.asgi
import ringfence.urls
print(*[name for name in {HEAVY!r} if sys.modules.get(name) is not None])
"""


def test_a_web_process_loads_no_client_before_it_needs_one() -> None:
    settings = {"DJANGO_SETTINGS_MODULE": "ringfence.settings", "RINGFENCE_SECRET_KEY": "only for tests"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=environment(settings),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []
