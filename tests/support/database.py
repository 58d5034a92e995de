"""A migrated SQLite file for tests that use Django in this process; processes that tests start know nothing of it."""

import os
import tempfile
import time
from unittest.mock import patch

import django

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


def migrate() -> None:
    """Make the tables, once."""
    from django.core.management import call_command

    call_command("migrate", verbosity=0)


def empty() -> None:
    """Empty all tables of the projection, of accounts, and of the audit trail, which takes SQL."""
    from django.apps import apps
    from django.contrib.auth.models import User
    from django.db import connection

    from ringfence.heartbeats.look import look
    from ringfence.log_levels import follower

    look._until, look._seen = time.monotonic() + 60, type(look._seen)()
    follower._due = time.monotonic() + 60  # its look now and then would be counted among a page's queries
    for label in ("mirror", "heartbeats", "access", "history", "alerts"):
        for model in apps.get_app_config(label).get_models():
            model._default_manager.all().delete()
    User.objects.all().delete()
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM audit_auditentry")
