"""Prepares the platform's database for this version."""

import sys
from collections.abc import Mapping

from ringfence.local.data_directory import DataDirectory
from ringfence.local.errors import LocalError
from ringfence.local.guarded_process import GuardedProcess

_MIGRATE_SECONDS = 120


def migrate(instance: DataDirectory, env: Mapping[str, str]) -> None:
    """Migrate the database to this version's tables. Raises LocalError with the last line of the error."""
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
