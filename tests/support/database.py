"""A migrated SQLite file for tests that use Django, without the outside knowing: one per test session."""

import os
import tempfile
from pathlib import Path

import django

_root = Path(tempfile.mkdtemp(prefix="ringfence-test-"))
# Before any module reads the settings; a database that is set already, PostgreSQL say, is emptied after each test.
os.environ["RINGFENCE_DATABASE_URL"] = (
    os.environ.get("RINGFENCE_TEST_DATABASE_URL") or f"sqlite:///{_root}/test.sqlite3"
)
os.environ.setdefault("RINGFENCE_SECRET_KEY", "only for tests")
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ringfence.settings")
django.setup()


def migrate() -> None:
    """Make the tables, once."""
    from django.core.management import call_command

    call_command("migrate", verbosity=0)


def empty() -> None:
    """Empty all tables."""
    from django.apps import apps

    for model in apps.get_app_config("mirror").get_models():
        model._default_manager.all().delete()
