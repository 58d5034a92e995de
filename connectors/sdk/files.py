"""Files that a configuration names: they are opened only below the worker's `file.roots`.

A path is checked before it is opened, with symbolic links resolved, so that no device is touched. The open file is
checked again by the path that the kernel reports, so that exchanging a link in between achieves nothing. Folders are
compared by device and inode, too, since a bind mount is another name of the same folder.

For client libraries that open files by name, a key or certificate is read in the same way and copied into memory; the
library gets the copy's name (`pin`). A link or file that is exchanged later does not affect a client that is being
created. A process has one copy of each content, so copies accumulate only as files are renewed.
"""

import os
import re
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from ringfence.connectors.api.errors import ConnectorError
from ringfence.connectors.sdk.worker_limits import FILE_ROOTS, WRITE_ROOTS, WorkerLimits, current

_NEVER: Final = ("/proc", "/sys", "/dev")
_SETTING: Final = re.compile(r"(^|\.)(ssl\.(truststore|keystore|ca|crl|certificate|key)|https\.ca)\.location$")
"""Client settings that name a file, with any prefix."""
_MOST_BYTES: Final = 1 << 20

_copies: dict[bytes, int] = {}
_lock: Final = threading.Lock()


class ClosedFile(ConnectorError):
    """The worker does not allow configurations to name this file."""


def open_allowed(path: str, flags: int = 0) -> int:
    """Return a descriptor of the file, read-only and non-blocking. Raises `ClosedFile`, OSError, ValueError."""
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
    """Raise `ClosedFile` if the path currently leads out of the roots, whether or not the file exists."""
    _judge(path, os.path.realpath(path), limits or current())


def check_write(folder: str) -> None:
    """Raise `ClosedFile` unless connectors may delete, move and create files in the folder as well as read them."""
    limits = current()
    check(folder, limits)
    real = Path(os.path.realpath(folder))
    if not any(real.is_relative_to(os.path.realpath(root)) for root in limits.write_roots):
        raise ClosedFile(
            f"Files in {folder} cannot be deleted or moved: it is not below a folder that connectors may change. Add "
            f"it to the worker's {WRITE_ROOTS} (CONNECT_FILE_WRITE_ROOTS) as well as to {FILE_ROOTS}, and restart the "
            "worker."
        )


def client_files(config: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the files that client settings of a configuration name, as (setting, path). The name identifies such
    settings.
    """
    return ((name, path) for name, value in config.items() if _SETTING.search(name) and (path := value.strip()))


def find_refused(config: Mapping[str, str]) -> dict[str, str]:
    """Return, by setting, why the file of a client setting must not be read."""
    refusals = {}
    for name, path in client_files(config):
        try:
            check(path)
        except ClosedFile as error:
            refusals[name] = str(error)
    return refusals


def _place_of(file: int, path: str) -> str:
    """Return the path of the open file."""
    try:
        return os.readlink(f"/proc/self/fd/{file}")
    except OSError:  # not Linux
        real = os.path.realpath(path)
        if not os.path.samestat(os.fstat(file), os.stat(real)):
            raise ClosedFile(f"File {path} was exchanged while it was opened. Restart the task") from None
        return real


def _judge(path: str, place: str, limits: WorkerLimits) -> None:
    if not limits.roots:
        raise ClosedFile(
            f"File {path} cannot be read: this worker does not allow connectors to read files. To allow it, name "
            f"folders in the worker's {FILE_ROOTS} (CONNECT_FILE_ROOTS) and restart the worker."
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
    """Return whether the path is the closed one or below it, under any name."""
    if real.is_relative_to(closed):
        return True
    try:
        info = os.stat(closed)
    except OSError:
        return False
    return any(_same(each, info) for each in (real, *real.parents))


def _same(path: Path, status: os.stat_result) -> bool:
    try:
        return os.path.samestat(path.stat(), status)
    except OSError:
        return False


def pin(path: str) -> str:
    """Return the name of a copy of the file, valid for this process's life. Raises `ClosedFile`, OSError,
    ValueError.
    """
    content = _read(path)
    with _lock:
        if content not in _copies:
            _copies[content] = _copy(content)
        return f"/proc/{os.getpid()}/fd/{_copies[content]}" if _has_proc() else f"/dev/fd/{_copies[content]}"


def pin_client_files(config: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the settings with pinned files, and by setting why a file cannot be read.

    The settings do not contain files that cannot be read.
    """
    settings, errors = dict(config), {}
    for name, path in client_files(config):
        try:
            settings[name] = pin(path)
        except ClosedFile as error:
            errors[name] = str(error)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            errors[name] = f"File {path} cannot be read: {reason}. Correct {name}, or the file's permissions."
        if name in errors:
            del settings[name]
    return settings, errors


def _read(path: str) -> bytes:
    with open(path, "rb", opener=open_allowed) as file:
        content = file.read(_MOST_BYTES + 1) or b""
    if len(content) > _MOST_BYTES:
        raise ValueError("it is larger than 1 MiB, which no key or certificate is")
    return content


def _copy(content: bytes) -> int:
    if hasattr(os, "memfd_create"):
        file = os.memfd_create("ringfence-pinned")
    else:  # not Linux
        file, name = tempfile.mkstemp()
        os.unlink(name)
    view = memoryview(content)
    while view:
        view = view[os.write(file, view) :]
    return file


def _has_proc() -> bool:
    return os.path.isdir("/proc/self/fd")
