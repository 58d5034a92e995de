"""Unpack a zip that is foreign data: what would leave its folder, or grow beyond the limits, is refused."""

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
    """archive: bytes of the file itself; unpacked: bytes of all files in it; files: how many, with the folders."""

    archive: int = 512 * 1024 * 1024
    unpacked: int = 1024 * 1024 * 1024
    files: int = 10_000


def unpack(archive: Path, into: Path, limits: Limits) -> None:
    """Into an empty folder. Raises LocalError at the first entry that is refused; what came before stays there."""
    left = limits.unpacked
    with ZipFile(archive) as found:
        entries = found.infolist()
        if len(entries) > limits.files:
            raise LocalError(f"{archive.name} holds {len(entries):,} files, and {limits.files:,} are the most")
        for entry in entries:
            path = into / _require_safe(archive, entry)
            if entry.is_dir():
                path.mkdir(parents=True, exist_ok=True)
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            # A header's word on a size is not believed: the bytes are counted as they come.
            with found.open(entry) as source, open(path, "xb") as made:
                while piece := source.read(_PIECE):
                    left -= len(piece)
                    if left < 0:
                        raise LocalError(f"{archive.name} unpacks to more than {limits.unpacked:,} bytes")
                    made.write(piece)


def _require_safe(archive: Path, entry: ZipInfo) -> PurePosixPath:
    """The entry's place below the plugin's folder. Raises LocalError for any other, and for what is no plain file."""
    path = PurePosixPath(entry.filename)
    if path.is_absolute() or ".." in path.parts or not path.parts or _UNSAFE.search(entry.orig_filename):
        raise LocalError(f"{archive.name} holds {entry.orig_filename!r}, which leads out of it. Do not trust it")
    kind = stat.S_IFMT(entry.external_attr >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR) or entry.flag_bits & _ENCRYPTED:
        raise LocalError(
            f"{archive.name} holds {entry.filename!r}, which is a link, a device or encrypted. Pack it with plain files"
        )
    return path
