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


def loaded(script: str) -> list[str]:
    """What the script prints, in a process of its own with the product's settings."""
    settings = {"DJANGO_SETTINGS_MODULE": "ringfence.settings", "RINGFENCE_SECRET_KEY": "only for tests"}
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=environment(settings),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_a_web_process_loads_no_client_before_it_needs_one() -> None:
    assert loaded(SCRIPT) == []


def test_what_sets_django_up_loads_neither_celery_nor_redis() -> None:
    """A migration or another command on the database needs none of them: half of the time of the set-up."""
    script = "import sys, django\ndjango.setup()\nprint(*sorted({'celery', 'kombu', 'redis'} & sys.modules.keys()))"
    assert loaded(script) == []
