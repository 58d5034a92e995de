"""Reports where a process crashed by a signal such as SIGSEGV, or hangs: the Python stacks of all its threads."""

import contextlib
import faulthandler
import io
import re
import signal
import sys
from pathlib import PurePath
from typing import Final

_FATAL = re.compile(r"Fatal Python error: .+")
_PARTS = ("  File ", "  ...", "  <", "Thread 0x", "Current thread 0x", "Extension modules")
_MOST_LINES = 80
_SAID: Final = re.compile(r"^(?P<said>.*process crashed)\. Fatal Python error: (?P<error>.+)")
_PLACE: Final = re.compile(r'^  File "(?P<file>[^"]+)", line (?P<line>\d+)', re.MULTILINE)
REMEDY: Final = "The task may use "
"""How the remedy begins that may follow a dump (`memory_limit.explain`)."""


def enable_crash_reports() -> None:
    """Write the stacks to standard error, which is the log of each of our processes, on a crash and on SIGUSR2.

    A process that hangs writes them, too: even one whose threads all wait for Python's global lock.
    """
    # Standard error has no file descriptor in a test that captures it, or may be missing.
    with contextlib.suppress(AttributeError, ValueError, io.UnsupportedOperation):
        if sys.stderr is None:
            return
        if not faulthandler.is_enabled():
            faulthandler.enable()
        faulthandler.register(signal.SIGUSR2)


def find_crash(text: str) -> str | None:
    """Return faulthandler's output in `text`, from its first line on; None if there is none.

    It is cut to a maximum number of lines, with the stack of the crashed thread first.
    """
    match = _FATAL.search(text)
    if match is None:
        return None
    lines = text[match.start() :].splitlines()
    stack = [lines[0]]
    for line in lines[1:]:
        if line and not line.startswith(_PARTS):
            break
        stack.append(line)
    return "\n".join(_current_first(stack)[:_MOST_LINES]).strip()


def _current_first(stack: list[str]) -> list[str]:
    """Put the crashed thread before all others."""
    start = next((n for n, line in enumerate(stack) if line.startswith("Current thread")), None)
    if start is None:
        return stack
    end = next((n for n in range(start + 1, len(stack)) if not stack[n].startswith("  ")), len(stack))
    return [stack[0], "", *stack[start:end], *stack[1:start], *stack[end:]]


def describe_crash(trace: str) -> str:
    """Return a crashed task's trace in one sentence, with the innermost place in Python; "" if it is none. In the dump
    itself, the last line, which says the cause of other traces, is a list of modules.
    """
    crash = _SAID.match(trace)
    if crash is None:
        return ""
    error, place, last = crash["error"], _PLACE.search(trace), trace.rstrip().splitlines()[-1]
    text = f"{crash['said']}: {error[:1].lower()}{error[1:]}"
    if place is not None:
        text = f"{text} in {PurePath(place['file']).name}, line {place['line']}"
    return f"{text}. {last}" if last.startswith(REMEDY) else text
