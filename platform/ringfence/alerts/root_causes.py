"""Finds the root causes of traces: the message and class of the original error first, and a hint."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from ringfence.connectors.api import DataException
from ringfence.connectors.java.connection_trouble import PREFIX as LOGGED
from ringfence.crashes import describe_crash
from ringfence.error_class import describe_error, drop_numbers, split_class
from ringfence.fencing.topics.status import KAFKA, PollRetry
from ringfence.fencing.topics.status.failed_record import RecordFailure
from ringfence.fencing.topics.status_entry import NOTE
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


_FRAME: Final = f"{DataException.__module__}.{DataException.__qualname__}"
_DIRECT = "\nThe above exception was the direct cause of the following exception:\n"
_DURING = "\nDuring handling of the above exception, another exception occurred:\n"


@dataclass(frozen=True, slots=True)
class Cause:
    """The root cause of a trace. text: the message of the original error; name: its class, "" if the trace names none;
    said_as: the error that was raised in the end, "" if it is the same."""

    text: str
    name: str
    said_as: str
    advice: Hint | None

    @property
    def headline(self) -> str:
        """The message for people."""
        return describe_error(self.name, self.text)

    @property
    def reported(self) -> str:
        """The message of the error that was raised in the end, "" if it is the same."""
        return describe_error(*split_class(self.said_as))

    @property
    def hint(self) -> str:
        """The remedy, "" if none is known."""
        return self.advice.text if self.advice else ""

    @property
    def more(self) -> Reference | None:
        """The section of the documentation about it."""
        return self.advice.more if self.advice else None


def cause_of(trace: str) -> Cause:
    """Return the root cause of a trace of Python or Java, or of any other text."""
    if crash := describe_crash(trace):
        return Cause(crash, "", "", find_hint("", trace.partition("\n")[0]))
    blocks = [_last_error(block) for block in trace.strip().split(_DURING)[-1].split(_DIRECT)]
    causes = [line.removeprefix("Caused by: ") for line in trace.splitlines() if line.startswith("Caused by: ")]
    root, final = (causes[-1] if causes else blocks[0]), blocks[-1]
    if split_class(final)[0] == _FRAME:
        root = final  # it says more than its cause
    if causes:
        final = next((line for line in trace.strip().splitlines() if line.strip()), "")
    name, text = split_class(root)
    return Cause(text, name, final if final != root else "", find_hint(name, root))


def _last_error(block: str) -> str:
    """Return `Class: message` of one traceback, where the message may have several lines; without a traceback the last
    line.
    """
    lines = [line for line in block.strip().splitlines() if not line.startswith(NOTE)]
    if not lines:
        return ""
    for index in range(len(lines) - 1, -1, -1):
        if lines[index].startswith((" ", "\t")) and index + 1 < len(lines):
            return "\n".join(lines[index + 1 :]).strip()
    return lines[-1].strip()


@dataclass(frozen=True, slots=True)
class Failure:
    """Failed tasks with the same trace. record: the one on which the first of them failed, if any; next_ms: wall clock
    of their next automatic restart, 0 for none; past_ms: when they failed, if they have been started again since."""

    tasks: tuple[int, ...]
    trace: str
    cause: Cause
    record: RecordFailure | None = None
    next_ms: int = 0
    past_ms: int = 0


def group_traces(traces: Iterable[tuple[int, str]]) -> list[Failure]:
    """Group (task, trace) by trace, the most frequent first. The traces must be redacted already."""
    groups: dict[str, list[int]] = {}
    for task, trace in traces:
        groups.setdefault(trace, []).append(task)
    sorted_groups = sorted(groups.items(), key=lambda group: -len(group[1]))
    return [Failure(tuple(tasks), trace, cause_of(trace)) for trace, tasks in sorted_groups]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Tasks whose source, or Kafka, refuses with the same message. since_ms, next_ms: wall clock of the first refusal,
    and of the next try. is_logged: only the plugin's log says so, and the plugin itself tries again."""

    tasks: tuple[int, ...]
    cause: str
    since_ms: int
    attempts: int
    next_ms: int
    by_kafka: bool = False
    is_logged: bool = False


def group_refusals(retries: Iterable[tuple[int, PollRetry]], redact: Callable[[str], str]) -> list[Refusal]:
    """Group tasks by the messages of their sources, the most frequent first."""
    groups: dict[str, list[tuple[int, PollRetry]]] = {}
    for task, retry in retries:
        groups.setdefault(drop_numbers(redact(retry.cause)), []).append((task, retry))
    refusals = [
        Refusal(
            tuple(task for task, _ in group),
            cause,
            min(retry.since_ms for _, retry in group),
            max(retry.attempts for _, retry in group),
            min(retry.next_ms for _, retry in group),
            all(retry.by == KAFKA for _, retry in group),
            cause.startswith(LOGGED),
        )
        for cause, group in groups.items()
    ]
    return sorted(refusals, key=lambda refusal: -len(refusal.tasks))
