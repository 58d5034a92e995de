"""`ringfence connectors incremental-snapshot`: have PostgresSource read tables again while it streams."""

import argparse
from typing import Any

from ringfence.client import output
from ringfence.client.arguments import Actions
from ringfence.client.output import ClientError, Exit
from ringfence.client.rest import Rest, segment

_ACTS = ("start", "pause", "resume", "stop", "status")
_WITH_TABLES = ("start", "stop")


def add(actions: Actions) -> None:
    """Declare the action."""
    about = "have a running PostgresSource read tables again, and show how far it is"
    action = actions.add("incremental-snapshot", _act, about, connector=True, output="table json yaml")
    action.add_argument("act", choices=_ACTS, help="start, pause, resume or stop it, or show how far it is")
    action.add_argument(
        "tables",
        nargs="*",
        metavar="TABLE",
        help="regular expression for schema.table: what to read (start), or to leave out (stop; default: all)",
    )


def _act(rest: Rest, args: argparse.Namespace) -> int:
    path = f"/api/v1/connectors/{segment(args.name)}/incremental-snapshot"
    if args.tables and args.act not in _WITH_TABLES:
        raise ClientError(Exit.USAGE, f"{args.act} is for all tables: leave {args.tables[0]} out")
    if args.act == "start" and not args.tables:
        raise ClientError(Exit.USAGE, "start needs the tables to read: public\\.orders, for example")
    if args.act == "status":
        _show(rest.call("GET", path), args)
        return 0
    if args.act == "stop":
        for table in args.tables or [""]:
            rest.call("DELETE", path, **({"table": table} if table else {}))
    else:
        body = {"action": "execute" if args.act == "start" else args.act}
        rest.call("POST", path, {**body, "tables": args.tables} if args.tables else body)
    print(f"{args.name}: {args.act} requested; its task carries it out, `status` shows the result")
    return 0


def _show(answer: Any, args: argparse.Namespace) -> None:
    if args.output != "table":
        output.print_structured(answer, args.output)
        return
    tables = answer["tables"]
    state = "paused" if answer["paused"] else "reading" if tables else "nothing is being read"
    parts = [state, f"{answer['rows']} rows read"]
    if answer["percent"] is not None:
        parts.append(f"about {answer['percent']} %")
    if answer["rows_per_second"] is not None:
        parts.append(f"{answer['rows_per_second']:.0f} rows/s")
    if answer["seconds_left"] is not None:
        parts.append(f"about {output.span(int(answer['seconds_left'] * 1000))} left")
    print(f"{args.name}: {', '.join(parts)}")
    for words in filter(None, (answer["note"], answer["refusal"])):
        print(f"  {words}")
    rows = [
        (one["table"], answer["table_rows"] if number == 0 else "-", one["rows_estimated"])
        for number, one in enumerate(tables)
    ]
    if rows:
        output.table(("TABLE", "ROWS", "ESTIMATED"), rows)
