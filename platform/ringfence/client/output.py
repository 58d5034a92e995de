"""Prints answers as tables for people, as JSON or YAML for scripts."""

import datetime as dt
import json
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from typing import Any, Final, TextIO

from ringfence.local.errors import LocalError


class Exit(IntEnum):
    """0 done, 1 local error, 2 wrong usage, 9 a wait that was too short, 10 a dry run that found changes; the others
    say what the server answered.
    """

    DONE = 0
    LOCAL = 1
    USAGE = 2
    NOT_FOUND = 3
    NOT_ALLOWED = 4
    CONFLICT = 5
    INVALID = 6
    UNKNOWN = 7
    NOT_REACHED = 8
    WAITED = 9
    CHANGES = 10


class ClientError(LocalError):
    """An error with a one-line message for the user, and the exit code."""

    def __init__(self, code: Exit, message: str) -> None:
        super().__init__(message)
        self.code = int(code)


def exit_of(status: int) -> Exit:
    """Return the exit code for an HTTP status. UNKNOWN: the request may or may not have been carried out."""
    match status:
        case 404:
            return Exit.NOT_FOUND
        case 401 | 403 | 429:
            return Exit.NOT_ALLOWED
        case 409 | 412:
            return Exit.CONFLICT
        case 503:
            return Exit.NOT_REACHED
        case _ if status < 500:
            return Exit.INVALID
        case _:
            return Exit.UNKNOWN


Cell = Callable[[Any], object]
_UNPRINTABLE: Final = re.compile(r"[^\n\t -~]")


def escape(text: str) -> str:
    """Return the text as one line without what a terminal would obey, or show in another order."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


class SafeStream:
    """A stream of text to a terminal. Names, values and messages that others gave cannot hide or forge what it shows;
    lines stay lines.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(_UNPRINTABLE.sub(lambda match: escape(match[0]), text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def print_structured(value: object, form: str) -> None:
    """Print a value as `json` or `yaml`."""
    if form == "json":
        text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    else:
        import yaml

        text = yaml.safe_dump(value, allow_unicode=True, sort_keys=False)
    sys.stdout.write(text)


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print columns as wide as their longest value."""
    lines = [[escape(str(cell)) for cell in row] for row in (head, *rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def listing(rows: Sequence[Any], form: str, columns: dict[str, Cell]) -> None:
    """Print rows as a table of these columns, or unchanged for scripts."""
    if form != "table":
        print_structured(list(rows), form)
        return
    table(list(columns), [[cell(row) for cell in columns.values()] for row in rows])


def time_of(ms: int | None) -> str:
    """Format milliseconds since the epoch as a time in UTC, - for never."""
    return dt.datetime.fromtimestamp(ms / 1000, dt.UTC).strftime("%Y-%m-%d %H:%M:%SZ") if ms and ms > 0 else "-"


def span(ms: int | None) -> str:
    """Format a duration, - for none."""
    if ms is None or ms < 0:
        return "-"
    if ms < 1000:
        return f"{ms} ms"
    seconds = ms // 1000
    if seconds < 120:
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 7200 else f"{seconds // 3600} h"


def confirm(name: str, purpose: str, yes: bool) -> None:
    """Have the user type the connector's name, unless `yes`. Raises `ClientError` for other input, or without a
    terminal.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise ClientError(Exit.USAGE, "There is no terminal to ask for confirmation: add --yes")
    if input(f"Type {name} to {purpose}: ") != name:
        raise ClientError(Exit.LOCAL, "The name does not match: nothing was changed")
