"""Traces for people: the root cause first, in the words of the error that began it, its class, and what helps."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ringfence.fencing.topics.record_failures import NOTE, RecordFailure
from ringfence.web.connector.error_hints import Hint, find_hint
from ringfence.web.handbook.references import Reference

_DIRECT = "\nThe above exception was the direct cause of the following exception:\n"
_DURING = "\nDuring handling of the above exception, another exception occurred:\n"
_ERROR = re.compile(r"^(?P<class>[A-Za-z_][\w.$]*)(?:: (?P<text>.*))?$", re.DOTALL)
_NAMED = re.compile(
    r"(Error|Exception|Warning|Exit|Interrupt|Fatal|Retriable|Abortable|Fenced|Invalid|Conflict|Group)$"
)


@dataclass(frozen=True, slots=True)
class Cause:
    """`text`: the root's words; `name`: its class, "" where the trace has none; `said_as`: the error that came out of
    it in the end, "" where it is the same."""

    text: str
    name: str
    said_as: str
    advice: Hint | None

    @property
    def hint(self) -> str:
        """What helps, "" where nothing is known."""
        return self.advice.text if self.advice else ""

    @property
    def more(self) -> Reference | None:
        """Where the documents say more."""
        return self.advice.more if self.advice else None


def cause_of(trace: str) -> Cause:
    """What a trace of Python or Java says. Any text will do."""
    blocks = [_last_error(block) for block in trace.strip().split(_DURING)[-1].split(_DIRECT)]
    caused = [line.removeprefix("Caused by: ") for line in trace.splitlines() if line.startswith("Caused by: ")]
    root, final = (caused[-1] if caused else blocks[0]), blocks[-1]
    if caused:
        final = next((line for line in trace.strip().splitlines() if line.strip()), "")
    name, text = _parts(root)
    return Cause(text, name, final if final != root else "", find_hint(name, root))


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
