"""Remedies for errors, and the section of the documentation about each."""

import re
from dataclasses import dataclass
from typing import Final

from ringfence.http import section_links
from ringfence.http.section_links import Reference


@dataclass(frozen=True, slots=True)
class Hint:
    """text: the remedy."""

    text: str
    more: Reference


HINTS: Final = (
    (
        r"^ConfigException$",
        Hint(
            "Correct the setting that it names on its page, under Pipeline: a restart alone does not help.",
            section_links.COMMON,
        ),
    ),
    (
        r"^(FileNotFoundError|NotADirectoryError|IsADirectoryError)$",
        Hint(
            "The path is looked up on the machine of the task's worker: put the file there, or correct the path.",
            section_links.CONFIG_FILES,
        ),
    ),
    (
        r"^PermissionError$",
        Hint(
            "The worker's account lacks the permission: grant it, or use another path.",
            section_links.CONFIG_FILES,
        ),
    ),
    (
        r"^(Connection\w*Error|BrokenPipeError|gaierror|herror|timeout|\w*Timeout|TimeoutError|URLError)$",
        Hint(
            "The source does not answer from that worker: check address, port, network and that it is up. "
            "Tasks start again by themselves.",
            section_links.RESTARTS,
        ),
    ),
    (
        r"^(ModuleNotFoundError|ImportError)$",
        Hint(
            "The plugin, or a package that it needs, is not installed on that worker: install it there, then restart.",
            section_links.CODE,
        ),
    ),
    (
        r"^MemoryError$",
        Hint("The process ran out of memory: lower the batch size, or give the worker more.", section_links.SIZES),
    ),
    (
        r"(Unicode(?:Decode|Encode|Translate)?Error|JSONDecodeError|DataException|ConversionError|SchemaException)$",
        Hint(
            "One record cannot be converted: correct its source or the converter, or set "
            "errors.tolerance=all to leave such records out.",
            section_links.BAD_RECORDS,
        ),
    ),
    (
        r"^(RetriableError|Retriable|Abortable)$",
        Hint(
            "It may pass by itself: nothing is lost, and the task starts again from the last committed offset.",
            section_links.RESTARTS,
        ),
    ),
    (
        r"^(AttributeError|TypeError|KeyError|IndexError|NameError|NotImplementedError|AssertionError|"
        r"ZeroDivisionError|ValueError)$",
        Hint(
            "The plugin's code has failed. The trace shows where: report it to the plugin's maintainers.",
            section_links.RAISED,
        ),
    ),
)
"""Hints by the error's class."""

TEXT_HINTS: Final = (
    (
        r"(?i)authoriz|authoris|AUTHORIZATION_FAILED|not authorized|access denied",
        Hint(
            "Kafka or the source refuses this account: preflight on the edit form names the permissions "
            "that are missing.",
            section_links.PERMISSIONS,
        ),
    ),
    (
        r"(?i)authenticat|SASL|bad credentials|password",
        Hint("The credentials are refused: set them again on its page, under Pipeline.", section_links.CLIENTS),
    ),
    (
        r"(?i)MSG_SIZE_TOO_LARGE|MESSAGE_TOO_LARGE|RECORD_LIST_TOO_LARGE|RecordTooLarge|message size too large",
        Hint(
            "A record is larger than Kafka accepts: raise max.message.bytes of the topic, and "
            "producer.override.max.request.size.",
            section_links.CLIENTS,
        ),
    ),
    (
        r"(?i)UNKNOWN_TOPIC|unknown topic",
        Hint(
            "The topic does not exist, and is not created automatically: create it, or set topic.creation.* for the "
            "connector.",
            section_links.MISSING_TOPICS,
        ),
    ),
    (
        r"(?i)no space left",
        Hint("A disk is full on that worker: make room, then restart the task.", section_links.TROUBLES),
    ),
)
"""Hints by the error's message, which is more specific than its class."""


def find_hint(name: str, text: str) -> Hint | None:
    """Return the hint for an error of that class with that message; None if none is known."""
    for pattern, hint in TEXT_HINTS:
        if re.search(pattern, text):
            return hint
    short = re.split(r"[.$]", name)[-1]
    return next((hint for pattern, hint in HINTS if re.search(pattern, short)), None)
