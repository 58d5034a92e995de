"""Files that a configuration names: opened below the worker's `file.roots` only.

A path is judged by what it leads to, symbolic links resolved, before it is opened, so that no device is touched; and
the open file is judged once more by where the kernel says it is, so that a link that is exchanged in between gains
nothing. Folders are compared by device and inode, too: a bind mount is another name of the same folder.
"""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from ringfence.connectors.api.errors import ConnectorError
from ringfence.connectors.worker_limits import FILE_ROOTS, WRITE_ROOTS, WorkerLimits, current

_NEVER: Final = ("/proc", "/sys", "/dev")
_SETTING: Final = re.compile(r"(^|\.)ssl\.(truststore|keystore|ca|crl|certificate|key)\.location$")
"""Settings of clients that name a file, under whichever prefix they stand."""


class ClosedFile(ConnectorError):
    """The worker does not let configurations name this file."""


def open_allowed(path: str, flags: int = 0) -> int:
    """A descriptor of the file, read-only and without blocking. Raises `ClosedFile`, OSError, ValueError."""
    limits = current()
    check(path, limits)
    file = os.open(path, flags | os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        _judge(path, _place_of(file, path), limits)
    except BaseException:
        os.close(file)
        raise
    return file


def check(path: str, limits: WorkerLimits | None = None) -> None:
    """Raises `ClosedFile` where the path leads out of the roots as it is now, whether or not there is a file."""
    _judge(path, os.path.realpath(path), limits or current())


def check_write(folder: str) -> None:
    """Raises `ClosedFile` unless connectors may delete, move and create files in the folder as well as read them."""
    limits = current()
    check(folder, limits)
    real = Path(os.path.realpath(folder))
    if not any(real.is_relative_to(os.path.realpath(root)) for root in limits.write_roots):
        raise ClosedFile(
            f"Files in {folder} cannot be deleted or moved: it is not below a folder that connectors may change. Name "
            f"it in the worker's {WRITE_ROOTS} (CONNECT_FILE_WRITE_ROOTS) as well as in {FILE_ROOTS}, and start the "
            "worker again."
        )


def client_files(config: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The files that client settings of a configuration name: (setting, path). Which these are is told by the name."""
    return ((name, path) for name, value in config.items() if _SETTING.search(name) and (path := value.strip()))


def find_refused(config: Mapping[str, str]) -> dict[str, str]:
    """By setting, why the file of a client setting may not be read."""
    found = {}
    for name, path in client_files(config):
        try:
            check(path)
        except ClosedFile as error:
            found[name] = str(error)
    return found


def _place_of(file: int, path: str) -> str:
    """Where the open file is."""
    try:
        return os.readlink(f"/proc/self/fd/{file}")
    except OSError:  # not Linux
        real = os.path.realpath(path)
        if not os.path.samestat(os.fstat(file), os.stat(real)):
            raise ClosedFile(f"File {path} was exchanged while it was opened. Start the task again") from None
        return real


def _judge(path: str, place: str, limits: WorkerLimits) -> None:
    if not limits.roots:
        raise ClosedFile(
            f"File {path} cannot be read: this worker lets connectors read no files. To allow it, name folders in the "
            f"worker's {FILE_ROOTS} (CONNECT_FILE_ROOTS) and start the worker again."
        )
    real = Path(place)
    roots = [os.path.realpath(root) for root in limits.roots]
    closed = [os.path.realpath(one) for one in (*_NEVER, *limits.closed)]
    if any(real.is_relative_to(root) for root in roots) and not any(_covers(one, real) for one in closed):
        return
    raise ClosedFile(
        f"File {path} cannot be read: it is not below a folder that connectors may read. Move it below one of the "
        f"worker's {FILE_ROOTS} ({', '.join(limits.roots)}), or have that setting changed."
    )


def _covers(closed: str, real: Path) -> bool:
    """Whether the path is the closed one or below it, under whatever name."""
    if real.is_relative_to(closed):
        return True
    try:
        wanted = os.stat(closed)
    except OSError:
        return False
    return any(_same(each, wanted) for each in (real, *real.parents))


def _same(path: Path, wanted: os.stat_result) -> bool:
    try:
        return os.path.samestat(path.stat(), wanted)
    except OSError:
        return False
