"""Prepares the platform's database for this version."""

import contextlib
import hashlib
import sqlite3
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

from ringfence.local.data_directory import DataDirectory
from ringfence.local.errors import LocalError
from ringfence.local.guarded_process import GuardedProcess

_MIGRATE_SECONDS = 120
_MIGRATED = "migrated"
_PACKAGE = Path(__file__).resolve().parents[1]


def migrate(instance: DataDirectory, env: Mapping[str, str]) -> None:
    """Migrate the database to this version's tables. Raises LocalError with the last line of the error.

    Django is asked only if this version's migrations, or those that the database has, differ from what the last start
    has left: to find out that nothing is due would cost it as much time as a web process needs to start. A database
    that is no file of SQLite's is always migrated.
    """
    if is_prepared(instance, env):
        return
    log = instance.log("migrate")
    # Django's checks are about this version's code, which its tests have checked; they take as long as the rest.
    command = [sys.executable, "-m", "django", "migrate", "--no-input", "--skip-checks"]
    process = GuardedProcess.start("migrate", command, log=log, env=env, cwd=instance.root)
    ended = process.wait(_MIGRATE_SECONDS)
    if not ended:
        process.kill()
    if not ended or process.poll() != 0:
        how = "could not be prepared" if ended else f"was not prepared within {_MIGRATE_SECONDS} s"
        raise LocalError(f"The database {how} ({process.last_log_line()}): see {log}")
    file = _file_of(env.get("RINGFENCE_DATABASE_URL", ""))
    if file is not None and (fingerprint := _fingerprint(file)) is not None:
        instance.remember(_MIGRATED, fingerprint)


def is_prepared(instance: DataDirectory, env: Mapping[str, str]) -> bool:
    """Return whether `migrate` has nothing to do."""
    file = _file_of(env.get("RINGFENCE_DATABASE_URL", ""))
    left = instance.recall(_MIGRATED)
    return file is not None and left is not None and left == _fingerprint(file)


def _file_of(url: str) -> Path | None:
    """Return the file of a SQLite URL with an absolute path, as `up` makes it; None for any other database."""
    parts = urlsplit(url)
    return Path(unquote(parts.path[1:])) if parts.scheme == "sqlite" and parts.path.startswith("//") else None


def _fingerprint(file: Path) -> str | None:
    """Return a digest of what the database has, and of what this version would look at; None if it has no tables."""
    applied = _read_applied(file)
    if applied is None:
        return None
    spec = find_spec("django")
    assert spec is not None
    assert spec.origin is not None
    contrib = Path(spec.origin).parent / "contrib"
    names = sorted(
        f"{each.parents[1].name}.{each.stem}" for root in (_PACKAGE, contrib) for each in root.glob("*/migrations/*.py")
    )
    digest = hashlib.sha256((_PACKAGE / "settings.py").read_bytes())  # it has the list of applications
    digest.update(repr((str(file), names, applied)).encode())
    return digest.hexdigest()


def _read_applied(file: Path) -> list[tuple[str, str]] | None:
    if not file.exists():
        return None
    # Not by a read-only URL: such a connection cannot read a database in WAL mode whose last process was killed.
    with contextlib.closing(sqlite3.connect(file)) as connection, contextlib.suppress(sqlite3.DatabaseError):
        return sorted(connection.execute("SELECT app, name FROM django_migrations").fetchall())
    return None
