"""Limits the memory of tasks and of calls to plugins: what exceeds it fails, and the machine and all others continue.

The limit is one of data memory (RLIMIT_DATA): private memory that can be written. The address space is no measure: the
libraries of a Python process reserve gigabytes that they never use.
"""

import contextlib
import logging
import re
import resource
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from ringfence.connectors.api import ConfigException
from ringfence.crashes import REMEDY

log = logging.getLogger(__name__)

MEMORY_LIMIT: Final = "task.memory.limit"
CALL_MEMORY_LIMIT: Final = "call.memory.limit"
INSTANCES_MEMORY_LIMIT: Final = "connectors.memory.limit"
"""Of the process in which the connector instances of a worker run, all of them together."""
DEFAULTS: Final = {MEMORY_LIMIT: "2g", CALL_MEMORY_LIMIT: "512m", INSTANCES_MEMORY_LIMIT: "1g"}
NONE: Final = "none"
"""The value of a setting for no limit."""

LEAST: Final = 256 * 1024 * 1024
"""A task's clients reserve some 100 MiB for the stacks of their threads, whether used or not."""

_SIZE: Final = re.compile(r"(\d+)([kmg]?)", re.IGNORECASE)
_UNITS: Final = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}
_STATUS: Final = Path("/proc/self/status")


def memory_limit(settings: Mapping[str, str], name: str = MEMORY_LIMIT) -> int | None:
    """Return the bytes of `512m` and the like; None for no limit. Raises `ConfigException`."""
    text = settings.get(name, "").strip() or DEFAULTS[name]
    if text.lower() == NONE:
        return None
    match = _SIZE.fullmatch(text)
    size = int(match[1]) * _UNITS[match[2].lower()] if match else 0
    if size < LEAST:
        raise ConfigException(
            f"{name}={text}: a size of at least {LEAST // 1024**2}m is expected, such as 512m or 2g, or {NONE}"
        )
    return size


def keep_memory_limit(size: int) -> None:
    """Let this process use `size` bytes more than now, from now on. Beyond that, Python raises MemoryError."""
    before = _data()
    if before is None:
        log.warning("A memory limit of %d bytes has no effect here: it requires Linux", size)
        return
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = before + size
    resource.setrlimit(resource.RLIMIT_DATA, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))


def change_memory_limit(size: int) -> None:
    """Add `size` bytes to the limit that `keep_memory_limit` has set; remove them if it is negative."""
    limit, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if limit != resource.RLIM_INFINITY:
        changed = limit + size
        changed = changed if hard == resource.RLIM_INFINITY else min(changed, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (changed, hard))


@contextlib.contextmanager
def limit_memory(size: int | None) -> Iterator[None]:
    """Let this process use `size` bytes more than now. Beyond that, Python raises MemoryError."""
    before = None if size is None else _data()
    if size is None or before is None:
        if size is not None:
            log.warning("%s has no effect here: it requires Linux", MEMORY_LIMIT)
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = before + size
    resource.setrlimit(resource.RLIMIT_DATA, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))  # the process is used again, for another task


def explain(trace: str, size: int | None) -> str:
    """Append the remedy to a trace, if the limit may have caused it."""
    if size is None or not ("MemoryError" in trace or "Fatal Python error: Aborted" in trace):
        return trace
    return (
        f"{trace.rstrip()}\n{REMEDY}{size // 1024**2} MiB ({MEMORY_LIMIT}). Raise that worker setting, or "
        "have the connector read less at once"
    )


def _data() -> int | None:
    """Return the data memory that this process has reserved, in bytes."""
    try:
        match = re.search(r"^VmData:\s+(\d+) kB", _STATUS.read_text(), re.MULTILINE)
    except OSError:
        return None
    return int(match[1]) * 1024 if match else None
