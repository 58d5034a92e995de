"""Installs a Kafka Connect plugin, one zip or jar, in a folder of `plugin.path`: whole, or not at all."""

import shutil
import zlib
from pathlib import Path
from typing import Final
from zipfile import BadZipFile

from ringfence.connectors.plugin_names import FILE_RULE, is_file_name
from ringfence.local.errors import LocalError
from ringfence.local.maven_plugins import require_connector
from ringfence.local.plugin_contents import digest
from ringfence.local.safe_unpacking import Limits, unpack
from ringfence.local.scratch import put_in_place, scratch_beside

_LIMITS: Final = Limits()
_DIGEST: Final = ".ringfence-sha256"
"""A file in a plugin's folder with its archive's digest, so that installing the same archive again succeeds."""


def install_archive(archive: Path, folder: Path, limits: Limits = _LIMITS) -> Path:
    """Return the plugin's own folder below `folder`, named after the archive. A jar is copied into it.

    It appears whole or not at all, since workers may be reading `folder`. Raises LocalError, with the reason and the
    remedy; also if another plugin exists under this name.
    """
    if not is_file_name(archive.name):
        raise LocalError(f"{archive.name!r} is not a plugin: {FILE_RULE}")
    target = folder / archive.stem
    if target.exists():
        return _require_same(archive, target)
    try:
        _require_size(archive, limits)
        folder.mkdir(parents=True, exist_ok=True)
        with scratch_beside(folder) as scratch:
            new_folder = scratch / target.name
            new_folder.mkdir()
            if archive.suffix == ".jar":
                shutil.copyfile(archive, new_folder / archive.name)
            else:
                unpack(archive, new_folder, limits)
            (new_folder / _DIGEST).write_text(digest(archive) + "\n")
            require_connector(archive.name, scratch)
            put_in_place(new_folder, target)
    except (BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise LocalError(f"{archive.name} cannot be unpacked: {error}. Download it again") from error
    except OSError as error:
        raise LocalError(f"{archive.name} cannot be installed in {target}: {error}") from error
    return _require_same(archive, target)


def _require_same(archive: Path, target: Path) -> Path:
    """Return the folder if it was created from the same archive: now, earlier, or by another process."""
    made_of = target / _DIGEST
    if not made_of.is_file() or made_of.read_text().strip() != digest(archive):
        raise LocalError(f"{target} exists already: remove it first, or give the archive another name")
    return target


def _require_size(archive: Path, limits: Limits) -> None:
    size = archive.stat().st_size
    if size > limits.archive:
        raise LocalError(f"{archive.name} has {size:,} bytes; the maximum is {limits.archive:,}")
