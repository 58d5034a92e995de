"""Django's own checks, which `ringfence up` leaves out: they are about the code, and would double its work."""

from django.core.management import call_command

from tests.support import database

__all__ = ["database"]


def test_django_finds_nothing_to_complain_about() -> None:
    call_command("check", fail_level="WARNING")


def test_the_migrations_make_the_tables_that_the_models_need() -> None:
    call_command("makemigrations", check=True, dry_run=True)
