"""Files for client libraries that open them by name: exactly the file that was checked is opened.

A key or certificate is read through `files.open_allowed` and copied into memory; the library gets the copy's name. A
link or file that is exchanged later does not affect a client that is being created. A process has one copy of each
content, so copies accumulate only as files are renewed.
"""

import os
import tempfile
import threading
from collections.abc import Mapping
from typing import Final

from ringfence.connectors.files import ClosedFile, client_files, open_allowed

_MOST_BYTES: Final = 1 << 20

_copies: dict[bytes, int] = {}
_lock: Final = threading.Lock()


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
