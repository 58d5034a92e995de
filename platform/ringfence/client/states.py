"""Prints the state of connectors in the words of the pages: health, its reason, and the committed records.

For Kafka Connect, which has no health, it prints states only.

`--wait` polls a connector until it is in the requested state, and prints its progress. By generation and attempt, the
native API distinguishes the tasks of a new configuration or of a restart from earlier ones. Kafka Connect does not:
with it, only the status counts.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from time import monotonic, sleep
from typing import Any

from ringfence.client import output
from ringfence.client.output import ClientError, Exit
from ringfence.client.rest import Rest, segment

PAUSE_SECONDS = 0.3
_WAIT_SECONDS = 120.0
_RECORD_NOTE = "Failed on a record: "
"""The beginning of the line after a trace that names the record."""

Attempts = Mapping[int, tuple[int, int]]
"""(generation, attempt) of each task."""


@dataclass(frozen=True, slots=True)
class ConnectorSnapshot:
    """A connector at one moment. status, info: from Kafka Connect's API; own, tasks: from the native API, else None."""

    status: Any
    info: Any
    own: Any
    tasks: Any

    @property
    def attempts(self) -> dict[int, tuple[int, int]]:
        return {task["task"]: (task["generation"], task["attempt"]) for task in self.tasks or ()}

    @property
    def moving(self) -> str:
        """Why the tasks of the newest configuration are not there yet, as a message; "" if that is not known."""
        if self.own is None or self.own["target"] == "STOPPED":
            return ""
        if self.own["generation"] <= self.own["config_offset"]:
            return "the tasks of the new configuration are being created"
        return "the earlier tasks are being fenced" if self.own["fencing"] else ""


def add_wait(parser: argparse.ArgumentParser) -> None:
    """Declare `--wait` and its limit."""
    parser.add_argument(
        "--wait",
        action="store_true",
        help="wait until the connector is in the requested state; progress goes to standard error",
    )
    parser.add_argument(
        "--wait-seconds",
        type=float,
        default=_WAIT_SECONDS,
        metavar="SECONDS",
        help=f"limit for --wait (default: {_WAIT_SECONDS:g})",
    )


def look(rest: Rest, name: str) -> ConnectorSnapshot:
    """Fetch the connector."""
    path = f"/connectors/{segment(name)}"
    own = rest.find(f"/api/v1{path}")
    tasks = rest.find(f"/api/v1{path}/tasks?limit=1000") if own is not None else None
    return ConnectorSnapshot(rest.find(f"{path}/status"), rest.find(path), own, tasks["results"] if tasks else None)


def attempts(rest: Rest, name: str) -> dict[int, tuple[int, int]]:
    """Return the tasks' attempts, to pass to `until` after a change; {} if the server does not report attempts."""
    return look(rest, name).attempts


def target(rest: Rest, name: str) -> str:
    """Return the state that the connector should have: a change leaves a paused or stopped connector in its state."""
    snapshot = look(rest, name)
    if snapshot.own is not None:
        return str(snapshot.own["target"])
    state = snapshot.status["connector"]["state"] if snapshot.status is not None else "RUNNING"
    return state if state in ("PAUSED", "STOPPED") else "RUNNING"


def until(rest: Rest, name: str, state: str, seconds: float, newer: Attempts | None = None, since: int = 0) -> None:
    """Wait until connector and tasks are in a state: RUNNING, PAUSED, STOPPED or DELETED.

    newer: each of these tasks must have another attempt; since: the generation to reach. Raises WAITED after `seconds`.
    """
    before = newer or {}
    deadline, last_line = monotonic() + seconds, ""
    while True:
        snapshot = look(rest, name)
        line = describe(snapshot.status) + (f"; {snapshot.moving}" if snapshot.moving else "")
        if line != last_line:
            print(f"{name}: {line}", file=sys.stderr)
            last_line = line
        is_old = any(snapshot.attempts.get(task) == attempt for task, attempt in before.items())
        is_before = snapshot.own is not None and snapshot.own["generation"] < since
        if not is_old and not is_before and has_reached(snapshot, state):
            return
        if monotonic() > deadline:
            why = "".join(f"\n  {cause}" for cause in causes(snapshot.status))
            message = (
                f"{name} is not {state} after {seconds:g} s: {line}. It continues in the background: look again with "
                f"`ringfence connectors get`, or wait longer with --wait-seconds{why}"
            )
            raise ClientError(Exit.WAITED, message)
        sleep(PAUSE_SECONDS)


def has_reached(snapshot: ConnectorSnapshot, target: str) -> bool:
    """Return whether connector and tasks are in this state. RUNNING needs every task of the newest generation."""
    if snapshot.status is None or target == "DELETED":
        return snapshot.status is None and target == "DELETED"
    states = [str(task["state"]) for task in snapshot.status["tasks"]]
    if snapshot.status["connector"]["state"] != target or snapshot.moving:
        return False
    if target == "STOPPED":
        return not states
    if target == "RUNNING" and (snapshot.info is None or len(snapshot.info["tasks"]) != len(states)):
        return False
    if target == "RUNNING" and not states and snapshot.own is None:
        return False  # Kafka Connect does not say whether it has no tasks, or none yet
    generations = {generation for generation, _ in snapshot.attempts.values()}
    if snapshot.own is not None and generations - {snapshot.own["generation"]}:
        return False
    return all(state == target for state in states)


def describe(status: Any) -> str:
    """Return the connector's state and the number of tasks in each state, in one line."""
    if status is None:
        return "no status yet, or deleted"
    counts: dict[str, int] = {}
    for task in status["tasks"]:
        counts[str(task["state"])] = counts.get(str(task["state"]), 0) + 1
    tasks = ", ".join(f"{count} {state}" for state, count in sorted(counts.items())) or "none"
    return f"{status['connector']['state']}, tasks: {tasks}"


def causes(status: Any) -> Iterable[str]:
    """Yield a line for the connector and each task that has failed: the error from its trace."""
    if status is None:
        return
    states = [("connector", status["connector"]), *((f"task {task['id']}", task) for task in status["tasks"])]
    yield from (f"{name}: {cause(state)}" for name, state in states if state["state"] == "FAILED")


def cause(state: Any) -> str:
    """Return the error from the trace of a connector or task; "" without a trace."""
    return _read_error(str(state.get("trace") or ""))


def _read_error(trace: str) -> str:
    """Return the last line of a trace that does not name the record; "" for an empty trace."""
    lines = [line.strip() for line in trace.strip().splitlines() if not line.startswith(_RECORD_NOTE)]
    return lines[-1] if lines else ""


_MOST = 10_000
_BAD = {
    "dead_letters_total": "as dead letters",
    "skipped_total": "skipped",
    "aborted_records_total": "aborted (reported)",
}


def of_all(rest: Rest) -> dict[str, Any]:
    """Return the native API's description of each connector by name; {} for Kafka Connect."""
    try:
        return {row["name"]: row for row in rest.get_rows("/api/v1/connectors", _MOST)}
    except ClientError as error:
        if error.code != Exit.NOT_FOUND:
            raise
        return {}


def table(statuses: dict[str, Any], own: dict[str, Any]) -> None:
    """Print a line for each connector. statuses: Kafka Connect's status and info, by name; own: see `of_all`."""
    rows = []
    for name, parts in sorted(statuses.items()):
        tasks = parts["status"]["tasks"]
        running = sum(task["state"] == "RUNNING" for task in tasks)
        state = parts["status"]["connector"]["state"]
        health = own.get(name, {}).get("health", "-")
        rows.append(
            (name, health, state, f"{running}/{len(tasks)}", parts["info"]["config"].get("connector.class", ""))
        )
    output.table(("NAME", "HEALTH", "STATE", "TASKS", "CLASS"), rows)


def status(rest: Rest, args: argparse.Namespace) -> int:
    """Run `connectors status`."""
    path = f"/connectors/{segment(args.name)}"
    connect_status, own = rest.call("GET", f"{path}/status"), rest.find(f"/api/v1{path}")
    tasks = rest.get_rows(f"/api/v1{path}/tasks") if own is not None else []
    if args.output != "table":
        output.print_structured(
            {**connect_status, "own": own, "own_tasks": tasks} if own is not None else connect_status, args.output
        )
        return 0
    if own is not None:
        reason = f": {own['reason']}" if own["reason"] else ""
        print(f"{own['name']} is {own['health']}{reason}")
        print(f"State:      {describe(connect_status)}; target state {own['target']}")
        print(f"Generation: {own['generation_number']} (at offset {own['generation']} of the config topic)")
        print(f"Records:    {_records(own)}; last commit {output.time_of(own['last_commit_ms'])}")
        print(f"Data:       as of {output.time_of(own.get('data_as_of_ms', 0))}")
    else:
        print(f"{connect_status['name']}: {describe(connect_status)}")
    numbers = {task["task"]: task for task in tasks}
    rows = []
    for task in connect_status["tasks"]:
        more = numbers.get(task["id"], {})
        rows.append((task["id"], task["state"], task["worker_id"], more.get("attempt", "-"), cause(task)))
    output.table(("TASK", "STATE", "WORKER", "ATTEMPT", "CAUSE"), rows)
    for task in tasks:
        if failed := task.get("failed_record"):
            print(f"Task {task['task']} failed on a record: {_record(failed)}")
    return 0


def _record(failed: dict[str, Any]) -> str:
    by = f"transform {failed['alias']}" if failed["alias"] else failed["class_name"]
    settings = f" ({', '.join(failed['settings'])})" if failed["settings"] else ""
    value = "" if failed["value"] is None else f", value {json.dumps(failed['value'], ensure_ascii=False)}"
    place = f"source partition {failed['source_partition']}, source offset {failed['source_offset']}"
    return f"{place}, at {failed['stage']} by {by}{settings}{value}"


def _records(own: dict[str, Any]) -> str:
    words = [f"{own['records_total']:,} committed" + (" (reported)" if own.get("records_reported") else "")]
    words += [f"{own[name]:,} {word}" for name, word in _BAD.items() if own[name]]
    return ", ".join(words)
