"""Unpacks an untrusted zip. Refuses entries that would leave the folder or exceed the limits."""

import re
import stat
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final
from zipfile import ZipFile, ZipInfo

from ringfence.local.errors import LocalError

_UNSAFE: Final = re.compile(r"[\\:\x00-\x1f\x7f]")
_PIECE: Final = 1024 * 1024
_ENCRYPTED: Final = 0x1


@dataclass(frozen=True, slots=True)
class Limits:
    """archive: bytes of the file itself. unpacked: bytes of all files in it. files: their number, including folders."""

    archive: int = 512 * 1024 * 1024
    unpacked: int = 1024 * 1024 * 1024
    files: int = 10_000


def unpack(archive: Path, into: Path, limits: Limits) -> None:
    """Unpack into an empty folder. Raises LocalError at the first refused entry; earlier ones stay there."""
    left = limits.unpacked
    with ZipFile(archive) as zip_file:
        entries = zip_file.infolist()
        if len(entries) > limits.files:
            raise LocalError(f"{archive.name} contains {len(entries):,} files; the maximum is {limits.files:,}")
        for entry in entries:
            path = into / _require_safe(archive, entry)
            if entry.is_dir():
                path.mkdir(parents=True, exist_ok=True)
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            # The size in a header is not trusted: the bytes are counted as they are unpacked.
            with zip_file.open(entry) as source, open(path, "xb") as target:
                while piece := source.read(_PIECE):
                    left -= len(piece)
                    if left < 0:
                        raise LocalError(f"{archive.name} unpacks to more than {limits.unpacked:,} bytes")
                    target.write(piece)


def _require_safe(archive: Path, entry: ZipInfo) -> PurePosixPath:
    """Return the entry's path below the plugin's folder. Raises LocalError for other paths, and if it is not a plain
    file.
    """
    path = PurePosixPath(entry.filename)
    if path.is_absolute() or ".." in path.parts or not path.parts or _UNSAFE.search(entry.orig_filename):
        raise LocalError(f"{archive.name} contains {entry.orig_filename!r}, which leads out of it. Do not trust it")
    kind = stat.S_IFMT(entry.external_attr >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR) or entry.flag_bits & _ENCRYPTED:
        raise LocalError(
            f"{archive.name} contains {entry.filename!r}, which is a link, a device or encrypted. Pack it with plain "
            "files"
        )
    return path
