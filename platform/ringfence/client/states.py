"""Prints the state of connectors in the words of the pages: health, its reason, and the committed records.

For Kafka Connect, which has no health, it prints states only.
"""

import argparse
import json
from typing import Any

from ringfence.client import output, waiting
from ringfence.client.exit_codes import ClientError, Exit
from ringfence.client.rest import Rest, segment

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
        print(f"State:      {waiting.describe(connect_status)}; target state {own['target']}")
        print(f"Generation: {own['generation_number']} (at offset {own['generation']} of the config topic)")
        print(f"Records:    {_records(own)}; last commit {output.time_of(own['last_commit_ms'])}")
        print(f"Data:       as of {output.time_of(own.get('data_as_of_ms', 0))}")
    else:
        print(f"{connect_status['name']}: {waiting.describe(connect_status)}")
    numbers = {task["task"]: task for task in tasks}
    rows = []
    for task in connect_status["tasks"]:
        more = numbers.get(task["id"], {})
        rows.append((task["id"], task["state"], task["worker_id"], more.get("attempt", "-"), waiting.cause(task)))
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
