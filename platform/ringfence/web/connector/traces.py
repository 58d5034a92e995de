"""Traces for people: the root cause first, in the words of the error that began it, its class, and what helps."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ringfence.fencing.topics.record_failures import NOTE, RecordFailure

_DIRECT = "\nThe above exception was the direct cause of the following exception:\n"
_DURING = "\nDuring handling of the above exception, another exception occurred:\n"
_ERROR = re.compile(r"^(?P<class>[A-Za-z_][\w.$]*)(?:: (?P<text>.*))?$", re.DOTALL)
_NAMED = re.compile(
    r"(Error|Exception|Warning|Exit|Interrupt|Fatal|Retriable|Abortable|Fenced|Invalid|Conflict|Group)$"
)

_HINTS: tuple[tuple[str, str], ...] = (
    (r"^ConfigException$", "Correct the setting that it names on the Config tab: a restart alone does not help."),
    (
        r"^(FileNotFoundError|NotADirectoryError|IsADirectoryError)$",
        "The path is looked up on the machine of the task's worker: put the file there, or correct the path.",
    ),
    (r"^PermissionError$", "The worker's account may not do that: grant it, or have the task use another path."),
    (
        r"^(Connection\w*Error|BrokenPipeError|gaierror|herror|timeout|\w*Timeout|TimeoutError|URLError)$",
        "The source does not answer from that worker: check address, port, network and that it is up. Tasks start "
        "again by themselves.",
    ),
    (
        r"^(ModuleNotFoundError|ImportError)$",
        "The plugin, or a package that it needs, is not installed on that worker: install it there, then restart.",
    ),
    (r"^MemoryError$", "The process ran out of memory: lower the batch size, or give the worker more."),
    (
        r"(Unicode\w*Error|JSONDecodeError|DataException|ConversionError|SchemaException)$",
        "One record cannot be converted: correct its source or the converter, or set errors.tolerance=all to leave "
        "such records out.",
    ),
    (
        r"^(RetriableError|Retriable|Abortable)$",
        "It may pass by itself: nothing is lost, and the task starts again from the last committed offset.",
    ),
    (
        r"^(AttributeError|TypeError|KeyError|IndexError|NameError|NotImplementedError|AssertionError|ZeroDivisionError|ValueError)$",
        "The plugin's own code has failed. The trace says where: show it to whoever maintains the plugin.",
    ),
)
_TEXT_HINTS: tuple[tuple[str, str], ...] = (
    (
        r"(?i)authoriz|authoris|AUTHORIZATION_FAILED|not authorized|access denied",
        "Kafka or the source refuses this account: preflight on the edit form names the permissions that are missing.",
    ),
    (
        r"(?i)authenticat|SASL|bad credentials|password",
        "The credentials are refused: set them again on the Config tab.",
    ),
    (
        r"(?i)MSG_SIZE_TOO_LARGE|RecordTooLarge|message size too large",
        "A record is larger than Kafka takes: raise max.message.bytes of the topic, and "
        "producer.override.max.request.size.",
    ),
    (
        r"(?i)UNKNOWN_TOPIC|unknown topic",
        "The topic is not there, and is not made by itself: create it, or set topic.creation.* for the connector.",
    ),
    (r"(?i)no space left", "A disk is full on that worker: make room, then restart the task."),
)


@dataclass(frozen=True, slots=True)
class Cause:
    """`text`: the root's words; `name`: its class, "" where the trace has none; `said_as`: the error that came out of
    it in the end, "" where it is the same; `hint`: what helps, "" where nothing is known."""

    text: str
    name: str
    said_as: str
    hint: str


def cause_of(trace: str) -> Cause:
    """What a trace of Python or Java says. Any text will do."""
    blocks = [_last_error(block) for block in trace.strip().split(_DURING)[-1].split(_DIRECT)]
    caused = [line.removeprefix("Caused by: ") for line in trace.splitlines() if line.startswith("Caused by: ")]
    root, final = (caused[-1] if caused else blocks[0]), blocks[-1]
    if caused:
        final = next((line for line in trace.strip().splitlines() if line.strip()), "")
    name, text = _parts(root)
    return Cause(text, name, final if final != root else "", hint(name, root))


def hint(name: str, text: str) -> str:
    """What helps against an error of that class with these words."""
    for pattern, told in _TEXT_HINTS:
        if re.search(pattern, text):
            return told
    short = re.split(r"[.$]", name)[-1]
    return next((told for pattern, told in _HINTS if re.search(pattern, short)), "")


def _last_error(block: str) -> str:
    """`Class: message` of one traceback; the message may have several lines. Without a traceback the last line."""
    lines = [line for line in block.strip().splitlines() if not line.startswith(NOTE)]
    if not lines:
        return ""
    for index in range(len(lines) - 1, -1, -1):
        if lines[index].startswith((" ", "\t")) and index + 1 < len(lines):
            return "\n".join(lines[index + 1 :]).strip()
    return lines[-1].strip()


def _parts(error: str) -> tuple[str, str]:
    """(class, words); a line that names no class is all words."""
    found = _ERROR.match(error)
    if found is None or not (_NAMED.search(found["class"]) or found["class"] in ("timeout", "gaierror")):
        return "", error
    return found["class"], (found["text"] or found["class"]).strip()


@dataclass(frozen=True, slots=True)
class Failure:
    """Failed tasks with the same trace. `record`: the one that failed the first of them, where one did; `next_ms`:
    their next automatic restart, 0 for none."""

    tasks: tuple[int, ...]
    trace: str
    cause: Cause
    record: RecordFailure | None = None
    next_ms: int = 0


def group_traces(traces: Iterable[tuple[int, str]]) -> list[Failure]:
    """(task, trace) by equal traces, the most frequent first. Traces come without secrets."""
    groups: dict[str, list[int]] = {}
    for task, trace in traces:
        groups.setdefault(trace, []).append(task)
    ordered = sorted(groups.items(), key=lambda group: -len(group[1]))
    return [Failure(tuple(tasks), trace, cause_of(trace)) for trace, tasks in ordered]
