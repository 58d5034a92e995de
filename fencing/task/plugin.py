"""A source task's plugin as the kernel sees it, and how an attempt ended."""

import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ringfence.connectors.api import SourceTask
from ringfence.fencing.records.error_handling import Convert
from ringfence.fencing.topics.status.failed_record import RecordFailure


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an attempt ended. `trace` is None for a normal end (superseded, stopped, deleted).

    left_open: its transactional id may have an open transaction, which the next `init` or a fence of the id ends.
    failure: the record that failed it.
    """

    reason: str
    trace: str | None = None
    left_open: bool = False
    failure: RecordFailure | None = None


@dataclass(frozen=True, slots=True)
class Plugin:
    """The plugin's part: how to create an instance, its resolved configuration, and the conversion of its records."""

    make: Callable[[], SourceTask]
    config: Mapping[str, str]
    convert: Convert
    version: str | None = None
    redact: Callable[[str], str] = str
    """Takes secrets out of a string that is reported or logged."""


def overrides(plugin: SourceTask, method: str) -> bool:
    """Return whether the plugin overrides an optional method."""
    return getattr(type(plugin), method) is not getattr(SourceTask, method)


def readable(error: Exception) -> str:
    """Return the stack trace, for a status."""
    return "".join(traceback.format_exception(error)).rstrip()
