"""Install a Kafka Connect plugin, one zip or jar, in a folder of `plugin.path`: whole, or not at all."""

import re
import shutil
import tempfile
import zlib
from pathlib import Path
from typing import Final
from zipfile import BadZipFile

from ringfence.local.errors import LocalError
from ringfence.local.plugins import require_connector
from ringfence.local.safe_unpacking import Limits, unpack

_SUFFIXES: Final = (".zip", ".jar")
_NAME: Final = re.compile(r"[A-Za-z0-9][\w.+-]*")
_LIMITS: Final = Limits()


def install_archive(archive: Path, folder: Path, limits: Limits = _LIMITS) -> Path:
    """The plugin's own folder below `folder`, named after the archive. A jar is put there as it is.

    It appears whole or not at all: workers may be looking at `folder`. Raises LocalError, with the reason and the
    remedy; for a plugin that is there already, too.
    """
    if archive.suffix not in _SUFFIXES or not _NAME.fullmatch(archive.stem):
        raise LocalError(
            f"{archive.name!r} is not a plugin: give a .zip or .jar whose name has letters, digits and . _ + - only. "
            "Unpack a tar.gz yourself, into a folder of its own"
        )
    target = folder / archive.stem
    if target.exists():
        raise LocalError(f"{target} is there already: remove it first, or give the archive another name")
    try:
        _require_size(archive, limits)
        folder.mkdir(parents=True, exist_ok=True)
        # Outside of `folder`, where a half-full one would be taken for a plugin, and on its file system.
        with tempfile.TemporaryDirectory(prefix=".ringfence-plugin-", dir=folder.parent) as scratch:
            made = Path(scratch) / target.name
            made.mkdir()
            if archive.suffix == ".jar":
                shutil.copyfile(archive, made / archive.name)
            else:
                unpack(archive, made, limits)
            require_connector(archive.name, Path(scratch))
            made.rename(target)
    except (BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise LocalError(f"{archive.name} cannot be unpacked: {error}. Fetch it again") from error
    except OSError as error:
        raise LocalError(f"{archive.name} cannot be installed in {target}: {error}") from error
    return target


def _require_size(archive: Path, limits: Limits) -> None:
    size = archive.stat().st_size
    if size > limits.archive:
        raise LocalError(f"{archive.name} has {size:,} bytes, and {limits.archive:,} are the most")
