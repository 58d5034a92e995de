"""A PostgreSQL primary with a streaming standby that can take over."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.postgres import Postgres, missing_programs
from tests.support.waiting import eventually


class PostgresPair:
    """`url` names both servers, the first primary first."""

    def __init__(self, root: Path) -> None:
        self._root, self._folders = root, 0
        self.primary = Postgres(self._new_folder())
        self.standby = self.primary.new_standby(self._new_folder())
        self.url = f"postgres://ringfence@127.0.0.1:{self.primary.port},127.0.0.1:{self.standby.port}/ringfence"

    def _new_folder(self) -> Path:
        self._folders += 1
        folder = self._root / str(self._folders)
        folder.mkdir()
        return folder

    def await_replication(self) -> None:
        """Until the standby has received and applied what the primary holds now."""
        end = self.primary.query("SELECT pg_current_wal_lsn()")

        def applied() -> bool:
            return self.standby.query(f"SELECT pg_last_wal_replay_lsn() >= '{end}'") == "t"

        eventually(applied, 60, "the standby has everything", pause=0.2)

    def cut_replication(self) -> None:
        """From now on the standby receives nothing more."""
        self.standby.query("ALTER SYSTEM SET primary_conninfo = ''")
        self.standby.query("SELECT pg_reload_conf()")
        eventually(lambda: self.standby.query("SELECT count(*) FROM pg_stat_wal_receiver") == "0", 30, "no receiver")

    def fail_over(self, *, hangs: bool = False) -> None:
        """The primary dies, or hangs, and the standby takes over at once."""
        if hangs:
            self.primary.suspend()
        else:
            self.primary.kill()
        self.standby.query("SELECT pg_promote()")

    def rebuild(self) -> None:
        """After a fail-over: the other server becomes the new primary's standby, at its old address."""
        self.primary.crash()
        port, self.primary = self.primary.port, self.standby
        self.standby = self.primary.new_standby(self._new_folder(), port=port)

    def stop(self) -> None:
        self.primary.crash()
        self.standby.stop()


@contextmanager
def new_postgres_pair() -> Iterator[PostgresPair]:
    """Skips the test where the machine has no PostgreSQL."""
    if missing := missing_programs("pg_basebackup", "psql"):
        pytest.skip(f"PostgreSQL is not on this machine ({', '.join(missing)}): apt-get install postgresql")
    root = Path(tempfile.mkdtemp(prefix="ringfence-postgres-"))
    root.chmod(0o755)
    pair = None
    try:
        pair = PostgresPair(root)
        yield pair
    finally:
        if pair is not None:
            pair.stop()
        shutil.rmtree(root)
