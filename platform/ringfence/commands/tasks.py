"""`ringfence tasks`, over REST."""

import argparse

from ringfence.client import output, states
from ringfence.client.arguments import Actions, run
from ringfence.client.rest import Rest, segment

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = Actions(parser)
    actions.add("list", _list, "list a connector's tasks and their states", connector=True, output="table json yaml")
    get = actions.add("get", _get, "show one task and its trace", connector=True, output="yaml json")
    restart = actions.add("restart", _restart, "restart one task", connector=True)
    for action in (get, restart):
        action.add_argument("task", type=int, help="the task's number")
    states.add_wait(restart)


def _list(rest: Rest, args: argparse.Namespace) -> int:
    tasks = rest.call("GET", f"/connectors/{segment(args.name)}/status")["tasks"]
    if args.output != "table":
        output.print_structured(tasks, args.output)
    else:
        output.table(("TASK", "STATE", "WORKER"), [(task["id"], task["state"], task["worker_id"]) for task in tasks])
    return 0


def _get(rest: Rest, args: argparse.Namespace) -> int:
    output.print_structured(rest.call("GET", f"/connectors/{segment(args.name)}/tasks/{args.task}/status"), args.output)
    return 0


def _restart(rest: Rest, args: argparse.Namespace) -> int:
    before = states.attempts(rest, args.name) if args.wait else {}
    rest.call("POST", f"/connectors/{segment(args.name)}/tasks/{args.task}/restart")
    print(f"{args.name}: restart of task {args.task} requested")
    if args.wait:
        newer = {task: attempt for task, attempt in before.items() if task == args.task}
        states.until(rest, args.name, states.target(rest, args.name), args.wait_seconds, newer=newer)
    return 0
