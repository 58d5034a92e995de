"""`connectors events` and `connectors logs`: what happened to a connector, line by line, optionally followed."""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ringfence.client import output
from ringfence.client.arguments import Actions
from ringfence.client.rest import Rest, segment

PAUSE_SECONDS = 1.0
_OVERLAP_MS = 10_000
"""Events come from several processes, so an earlier one may be seen after a later one."""


def add(actions: Actions) -> None:
    """Declare the actions."""
    events = actions.add(
        "events", _events, "show a connector's events, oldest first", connector=True, output="text json"
    )
    events.add_argument("--kind", help="only of this kind: round, task, command, warning …")
    logs = actions.add("logs", _logs, "show the logs of a connector and its tasks", connector=True, output="text json")
    logs.add_argument("--level", help="minimum level: ERROR, WARN, INFO or DEBUG")
    for action in (events, logs):
        action.add_argument("--task", type=int, metavar="N", help="only of this task")
        action.add_argument("--search", metavar="TEXT", help="only entries that contain this text")
        action.add_argument(
            "--since", metavar="TIME", help="only entries since this time: 2025-03-01T12:00:00Z, or ms since the epoch"
        )
        action.add_argument(
            "--limit", type=int, default=50, metavar="N", help="number of entries, newest first (default: 50)"
        )
        action.add_argument("-f", "--follow", action="store_true", help="keep printing new entries until Ctrl-C")
    about = "show or set a connector's log level; a level other than INFO is temporary"
    level = actions.add("log-level", _log_level, about, connector=True)
    level.add_argument(
        "level", nargs="?", metavar="LEVEL", help="ERROR, WARN, INFO, DEBUG …; leave it out to show the level"
    )
    level.add_argument("--minutes", type=int, default=15, metavar="N", help="how long the level applies (default: 15)")


def _log_level(rest: Rest, args: argparse.Namespace) -> int:
    path = f"/api/v1/connectors/{segment(args.name)}/log-level"
    body = None if args.level is None else {"level": args.level.upper(), "minutes": args.minutes}
    answer = rest.call("GET", path) if body is None else rest.call("PUT", path, body)
    until = f" until {output.time_of(answer['until_ms'])}" if answer["until_ms"] else ""
    print(f"{args.name}: {answer['level']}{until}")
    return 0


def _logs(rest: Rest, args: argparse.Namespace) -> int:
    def line(row: Any) -> str:
        where = f"task {row['task']}" if row["task"] >= 0 else f"worker {row['worker']}"
        return f"{output.time_of(row['time_ms'])}  {row['level']:<5}  {where}: {row['logger']}: {row['message']}"

    query = {"level": args.level, "task": args.task, "search": args.search, "since": args.since}
    if not _show(rest, args, "logs", query, line):
        print(f"{args.name}: no such lines are kept", file=sys.stderr)
    return 0


def _events(rest: Rest, args: argparse.Namespace) -> int:
    def line(row: Any) -> str:
        task = "" if row["task"] is None else f"task {row['task']}: "
        return f"{output.time_of(row['time_ms'])}  {row['kind']:<8}  {task}{row['summary']}"

    _show(rest, args, "events", {key: getattr(args, key) for key in ("kind", "task", "search", "since")}, line)
    return 0


def _show(
    rest: Rest, args: argparse.Namespace, what: str, parameters: Mapping[str, object], line: Callable[[Any], str]
) -> int:
    """Print the lines. Returns their number."""
    query = {name: str(value) for name, value in parameters.items() if value is not None}
    path = f"/api/v1/connectors/{segment(args.name)}/{what}"
    count = 0
    for row in follow(rest, path, query, args.limit, forever=args.follow):
        count += 1
        print(json.dumps(row, ensure_ascii=False) if args.output == "json" else line(row))
        sys.stdout.flush()
    return count


def follow(
    rest: Rest,
    path: str,
    query: dict[str, str],
    most: int,
    *,
    forever: bool,
    pause: Callable[[float], None] = time.sleep,
) -> Iterator[Any]:
    """Yield the newest rows, oldest first; then, if `forever`, each new one once."""
    rows = rest.get_rows(path, most, {**query, "order": "-time_ms"})
    last = max((row["id"] for row in rows), default=0)
    newest = max((row["time_ms"] for row in rows), default=0)
    yield from reversed(rows)
    while forever:
        pause(PAUSE_SECONDS)
        since = {"since": str(max(0, newest - _OVERLAP_MS))} if newest else {}
        rows = [row for row in rest.get_rows(path, None, {**query, **since, "order": "time_ms"}) if row["id"] > last]
        last = max((row["id"] for row in rows), default=last)
        newest = max((row["time_ms"] for row in rows), default=newest)
        yield from rows
