"""Separates the class of an error from its message: `ValueError: x is missing` in a trace of Python or Java. Pure."""

import re
from typing import Final

_ERROR: Final = re.compile(r"^(?P<name>[A-Za-z_][\w.$]*)(?:: (?P<message>.*))?$", re.DOTALL | re.ASCII)
_ENDINGS: Final = (
    "Error|Exception|Warning|Exit|Interrupt|Fatal|Retriable|Abortable|Fenced|Invalid|Conflict|Group|timeout|gaierror"
)
_NUMBER: Final = re.compile(r"\[Errno \d+\] ")
_CLASS: Final = re.compile(rf"({_ENDINGS})$|[.$][A-Z]\w*$")
"""A class has a known ending, or a capital letter after its package: `example.org: refused` does not name one."""


def split_class(error: str) -> tuple[str, str]:
    """Return class and message of an error. The class is "" if the text names none.

    The message is the class if the error has no other.
    """
    match = _ERROR.match(error)
    if match is None or not _CLASS.search(match["name"]):
        return "", error
    return match["name"], (match["message"] or match["name"]).strip()


def describe_error(name: str, message: str) -> str:
    """Return an error's message for people, without its class and number: those stand beside it, for who looks closer.

    name, message: as `split_class` returns them.
    """
    simple = re.split(r"[.$]", name)[-1]
    if name and message == name:
        return f"It failed without a message ({simple})"
    return f"The key {message} is missing" if simple == "KeyError" else drop_numbers(message)


def drop_numbers(message: str) -> str:
    """Return the message without the operating system's numbers of errors, whose words stand beside them."""
    return _NUMBER.sub("", message)
