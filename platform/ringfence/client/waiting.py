"""`--wait`: look at the status until it is as wished, and say meanwhile what it is."""

import sys
import time
from typing import Any

from ringfence.client.exits import ClientError, Exit
from ringfence.client.rest import Rest, segment

PAUSE_SECONDS = 0.3


def until(rest: Rest, name: str, wanted: str, seconds: float) -> None:
    """Until connector and tasks are `wanted`: RUNNING, PAUSED, STOPPED or DELETED. Raises WAITED after `seconds`."""
    deadline, told = time.monotonic() + seconds, ""
    while True:
        status = rest.find(f"/connectors/{segment(name)}/status")
        info = rest.find(f"/connectors/{segment(name)}") if wanted == "RUNNING" else None
        line = describe(status)
        if line != told:
            print(f"{name}: {line}", file=sys.stderr)
            told = line
        if reached(status, info, wanted):
            return
        if time.monotonic() > deadline:
            message = f"{name} is not {wanted} after {seconds:g} s: {line}. It goes on by itself; look at its status"
            raise ClientError(Exit.WAITED, message)
        time.sleep(PAUSE_SECONDS)


def reached(status: Any, info: Any, wanted: str) -> bool:
    """Whether the status is as wished; a running connector has every task that it should have."""
    if status is None or wanted == "DELETED":
        return status is None and wanted == "DELETED"
    states = [str(task["state"]) for task in status["tasks"]]
    if status["connector"]["state"] != wanted:
        return False
    if wanted == "STOPPED":
        return not states
    if wanted == "RUNNING" and (not states or info is None or len(info["tasks"]) != len(states)):
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
