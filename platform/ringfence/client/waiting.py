"""`--wait`: look at the connector until it is as wished, and say in the meantime how it is.

Our own API tells the tasks of a new configuration or of a restart from those before: by generation and attempt. A real
Kafka Connect does not, and there the status alone counts.
"""

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from time import monotonic, sleep
from typing import Any

from ringfence.client.exit_codes import ClientError, Exit
from ringfence.client.rest import Rest, segment

PAUSE_SECONDS = 0.3
_RECORD_NOTE = "Failed on a record: "
"""So begins the line that workers put behind a trace to name the record."""

Attempts = Mapping[int, tuple[int, int]]
"""(generation, attempt) of each task."""


@dataclass(frozen=True, slots=True)
class ConnectorSnapshot:
    """A connector at one moment. status: Kafka Connect's; own, tasks: those of our own API, None elsewhere."""

    status: Any
    info: Any
    own: Any
    tasks: Any

    @property
    def attempts(self) -> dict[int, tuple[int, int]]:
        return {task["task"]: (task["generation"], task["attempt"]) for task in self.tasks or ()}

    @property
    def moving(self) -> str:
        """What stands between the newest configuration and its tasks; "" for nothing that can be seen."""
        if self.own is None or self.own["target"] == "STOPPED":
            return ""
        if self.own["generation"] <= self.own["config_offset"]:
            return "the tasks of the new configuration are being made"
        return "the tasks before are being fenced" if self.own["fencing"] else ""


def look(rest: Rest, name: str) -> ConnectorSnapshot:
    """How the connector is now."""
    path = f"/connectors/{segment(name)}"
    own = rest.find(f"/api/v1{path}")
    tasks = rest.find(f"/api/v1{path}/tasks?limit=1000") if own is not None else None
    return ConnectorSnapshot(rest.find(f"{path}/status"), rest.find(path), own, tasks["results"] if tasks else None)


def attempts(rest: Rest, name: str) -> dict[int, tuple[int, int]]:
    """To be asked before what makes new ones; {} where the server does not tell."""
    return look(rest, name).attempts


def target(rest: Rest, name: str) -> str:
    """The state that it is meant to have: a paused or stopped connector stays so when it is changed."""
    seen = look(rest, name)
    if seen.own is not None:
        return str(seen.own["target"])
    state = seen.status["connector"]["state"] if seen.status is not None else "RUNNING"
    return state if state in ("PAUSED", "STOPPED") else "RUNNING"


def until(rest: Rest, name: str, wanted: str, seconds: float, newer: Attempts | None = None, since: int = 0) -> None:
    """Until connector and tasks are `wanted`: RUNNING, PAUSED, STOPPED or DELETED. Raises WAITED after `seconds`.

    newer: tasks that must have another attempt than this; since: the generation that must be reached.
    """

    before = newer or {}
    deadline, told = monotonic() + seconds, ""
    while True:
        seen = look(rest, name)
        line = describe(seen.status) + (f"; {seen.moving}" if seen.moving else "")
        if line != told:
            print(f"{name}: {line}", file=sys.stderr)
            told = line
        is_old = any(seen.attempts.get(task) == attempt for task, attempt in before.items())
        is_before = seen.own is not None and seen.own["generation"] < since
        if not is_old and not is_before and has_reached(seen, wanted):
            return
        if monotonic() > deadline:
            why = "".join(f"\n  {cause}" for cause in causes(seen.status))
            message = (
                f"{name} is not {wanted} after {seconds:g} s: {line}. It goes on by itself: look again with "
                f"`ringfence connectors get`, or wait longer with --wait-seconds{why}"
            )
            raise ClientError(Exit.WAITED, message)
        sleep(PAUSE_SECONDS)


def has_reached(seen: ConnectorSnapshot, wanted: str) -> bool:
    """Whether all is as wished; a running connector has every task that it should have, of its newest generation."""
    if seen.status is None or wanted == "DELETED":
        return seen.status is None and wanted == "DELETED"
    states = [str(task["state"]) for task in seen.status["tasks"]]
    if seen.status["connector"]["state"] != wanted or seen.moving:
        return False
    if wanted == "STOPPED":
        return not states
    if wanted == "RUNNING" and (seen.info is None or len(seen.info["tasks"]) != len(states)):
        return False
    if wanted == "RUNNING" and not states and seen.own is None:
        return False  # a Kafka Connect that has not made them yet looks like one that has none to make
    generations = {generation for generation, _ in seen.attempts.values()}
    if seen.own is not None and generations - {seen.own["generation"]}:
        return False
    return all(state == wanted for state in states)


def describe(status: Any) -> str:
    """One line: the connector's state and how many tasks are in which."""
    if status is None:
        return "no status yet, or deleted"
    counts: dict[str, int] = {}
    for task in status["tasks"]:
        counts[str(task["state"])] = counts.get(str(task["state"]), 0) + 1
    tasks = ", ".join(f"{count} {state}" for state, count in sorted(counts.items())) or "none"
    return f"{status['connector']['state']}, tasks: {tasks}"


def causes(status: Any) -> Iterable[str]:
    """Of what has failed: the line of each trace that says why."""
    if status is None:
        return
    named = [("connector", status["connector"]), *((f"task {task['id']}", task) for task in status["tasks"])]
    yield from (f"{name}: {cause(state)}" for name, state in named if state["state"] == "FAILED")


def cause(state: Any) -> str:
    """The line of a trace that says why."""
    return _read_error(str(state.get("trace") or ""))


def _read_error(trace: str) -> str:
    """The line of a trace that says what went wrong, "" for an empty one."""
    lines = [line.strip() for line in trace.strip().splitlines() if not line.startswith(_RECORD_NOTE)]
    return lines[-1] if lines else ""
