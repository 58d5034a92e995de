"""A database that is up to date is not migrated again, and one that is not always is."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ringfence.local import database
from ringfence.local.data_directory import DataDirectory
from ringfence.local.database import migrate
from ringfence.local.environment import complete


@pytest.fixture
def prepared(tmp_path: Path) -> tuple[DataDirectory, dict[str, str]]:
    """A folder whose database was migrated once."""
    instance = DataDirectory(tmp_path)
    env = complete({}, instance, bootstrap="127.0.0.1:1", embedded_kafka=False, redis_url="redis://x", http="x:1")
    migrate(instance, env)
    return instance, env


def migrations_run(instance: DataDirectory) -> int:
    """How often Django was asked: each time it says what it was asked for."""
    return instance.log("migrate").read_text().count("Operations to perform")


def tables(root: Path) -> set[str]:
    with closing(sqlite3.connect(root / "ringfence.sqlite3")) as connection:
        return {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def test_a_database_that_is_up_to_date_is_left_alone(prepared: tuple[DataDirectory, dict[str, str]]) -> None:
    instance, env = prepared
    assert migrations_run(instance) == 1
    migrate(instance, env)
    assert migrations_run(instance) == 1


def test_a_database_that_was_replaced_is_migrated(prepared: tuple[DataDirectory, dict[str, str]]) -> None:
    instance, env = prepared
    for file in instance.root.glob("ringfence.sqlite3*"):
        file.unlink()
    migrate(instance, env)
    assert "django_migrations" in tables(instance.root)


def test_a_database_without_the_newest_migration_gets_it(prepared: tuple[DataDirectory, dict[str, str]]) -> None:
    instance, env = prepared
    with closing(sqlite3.connect(instance.root / "ringfence.sqlite3")) as connection, connection:
        newest = "(SELECT max(name) FROM django_migrations WHERE app = 'sessions')"
        connection.execute(f"DELETE FROM django_migrations WHERE app = 'sessions' AND name = {newest}")
        connection.execute("DROP TABLE django_session")
    migrate(instance, env)
    assert "django_session" in tables(instance.root)


def test_a_version_with_other_migrations_migrates(
    prepared: tuple[DataDirectory, dict[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance, env = prepared
    package = tmp_path / "package"
    (package / "audit" / "migrations").mkdir(parents=True)
    (package / "settings.py").write_bytes((database._PACKAGE / "settings.py").read_bytes())
    (package / "audit" / "migrations" / "0099_newer.py").touch()
    monkeypatch.setattr(database, "_PACKAGE", package)
    migrate(instance, env)
    assert migrations_run(instance) == 2


def test_all_migrations_are_looked_at(prepared: tuple[DataDirectory, dict[str, str]]) -> None:
    """Those of an application elsewhere would not be noticed when it is upgraded."""
    from django.apps import apps

    import tests.support.database  # noqa: F401 - it loads Django's applications

    looked_at = ("ringfence.", "django.contrib.")
    having = [each for each in apps.get_app_configs() if (Path(each.path) / "migrations").is_dir()]
    assert [each.name for each in having if not each.name.startswith(looked_at)] == []
