"""A migrated SQLite file for tests that use Django in this process; processes that tests start know nothing of it."""

import os
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from unittest.mock import patch

import django
import pytest

_directory = tempfile.TemporaryDirectory(prefix="ringfence-test-")
_settings = {
    # RINGFENCE_TEST_DATABASE_URL: another database, PostgreSQL say; it is emptied before each test.
    "RINGFENCE_DATABASE_URL": os.environ.get("RINGFENCE_TEST_DATABASE_URL")
    or f"sqlite:///{_directory.name}/test.sqlite3",
    "RINGFENCE_SECRET_KEY": "only for tests",
    "RINGFENCE_HTTP": "127.0.0.1:8083",
    "DJANGO_SETTINGS_MODULE": "ringfence.settings",
}
with patch.dict(os.environ, _settings):
    django.setup()

from django.conf import settings  # noqa: E402

# As with `ringfence up --no-login`; a test about logins says NO_LOGIN="".
settings.NO_LOGIN = "machine"
# What makes a password hard to guess takes a third of a second each time, and no test here is about that.
settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
# Else each test's client reads the times and sizes of all static files, a tenth of what these tests compute.
settings.WHITENOISE_AUTOREFRESH = True


@cache
def migrate() -> None:
    """Make the tables, once in each process: to find out that there is nothing to do takes as long as a dozen tests."""
    from django.core.management import call_command

    call_command("migrate", verbosity=0)


def empty() -> None:
    """Empty all tables of the projection, of accounts, and of the audit trail.

    In SQL: Django would load each row and look for what refers to it, thousands of times in a run, and audit entries
    refuse it.
    """
    from django.db import connection, transaction

    from ringfence.api.loggers import follower
    from ringfence.heartbeats.cluster_view import look

    look._until, look._last = time.monotonic() + 60, type(look._last)()
    follower._due = time.monotonic() + 60  # its look now and then would be counted among a page's queries
    with transaction.atomic(), connection.cursor() as cursor:  # references are checked at its end
        for table in _tables():
            cursor.execute(f"DELETE FROM {connection.ops.quote_name(table)}")


@pytest.fixture(scope="session", autouse=True)
def migrated() -> None:
    """The tables are there. For a `conftest.py`, which imports it; `empty_tables` needs it."""
    migrate()


@pytest.fixture(autouse=True)
def empty_tables(migrated: None) -> Iterator[None]:
    """For each test of a folder whose `conftest.py` imports it."""
    empty()
    yield
    empty()


@cache
def _tables() -> tuple[str, ...]:
    from django.apps import apps
    from django.contrib.auth.models import User

    labels = ("mirror", "heartbeats", "access", "history", "alerts", "audit")
    models = [model for label in labels for model in apps.get_app_config(label).get_models(include_auto_created=True)]
    links = [field.m2m_db_table() for field in User._meta.local_many_to_many]
    return (*(model._meta.db_table for model in models), *links, User._meta.db_table)
