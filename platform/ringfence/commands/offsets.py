"""`ringfence offsets`: source offsets, over REST. They can be changed while the connector is STOPPED.

`offsets snapshot`, `snapshots`, `preview` and `undo` are about saved source offsets.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from ringfence.client import output
from ringfence.client.arguments import Actions, add_yes, run
from ringfence.client.output import ClientError, Exit, confirm
from ringfence.client.rest import Rest, segment

_LOOKED_AT = 20


def add(actions: Actions) -> None:
    """Declare the actions."""
    taking = actions.add("snapshot", _take, "save a snapshot of the current offsets", connector=True)
    taking.add_argument(
        "--why", default="asked for", metavar="TEXT", help="note kept with the snapshot (default: asked for)"
    )
    listing = actions.add("snapshots", _list, "list snapshots, newest first", connector=True, output="table json yaml")
    listing.add_argument("--limit", type=int, default=20, metavar="N", help="number of snapshots (default: 20)")
    about = "show what restoring a snapshot would change"
    preview = actions.add("preview", _preview, about, connector=True, output="table json yaml")
    preview.add_argument("snapshot", type=int, help="snapshot number, from `snapshots`")
    about = "undo the last manual change: restore a snapshot of a stopped connector"
    undo = actions.add("undo", _undo, about, connector=True)
    undo.add_argument(
        "--to",
        type=int,
        metavar="N",
        help="snapshot to restore (default: the newest that differs from the current offsets)",
    )
    undo.add_argument("--dry-run", action="store_true", help="show what would change without changing anything")
    add_yes(undo)


def _path(name: str) -> str:
    return f"/api/v1/connectors/{segment(name)}"


def _take(rest: Rest, args: argparse.Namespace) -> int:
    snapshot = rest.call("POST", f"{_path(args.name)}/offset-snapshots", {"why": args.why})
    partitions = "1 partition" if snapshot["partitions"] == 1 else f"{snapshot['partitions']} partitions"
    print(f"{args.name}: snapshot {snapshot['number']} of {partitions}")
    return 0


def _list(rest: Rest, args: argparse.Namespace) -> int:
    columns: dict[str, output.Cell] = {
        "SNAPSHOT": lambda row: row["number"],
        "TIME": lambda row: output.time_of(row["time_ms"]),
        "USER": lambda row: row["user"] or "-",
        "PARTITIONS": lambda row: row["partitions"],
        "WHY": lambda row: row["why"],
    }
    output.listing(rest.get_rows(f"{_path(args.name)}/offset-snapshots", args.limit), args.output, columns)
    return 0


def _preview_change(rest: Rest, name: str, number: int) -> Any:
    return rest.call("POST", f"{_path(name)}/offsets/preview", {"snapshot": number})


def _changes(answer: Any) -> list[Any]:
    return [row for row in answer["offsets"] if row["changes"]]


_COLUMNS: dict[str, output.Cell] = {
    "PARTITION": lambda row: json.dumps(row["partition"]),
    "NOW": lambda row: json.dumps(row["before"]),
    "THEN": lambda row: json.dumps(row["after"]),
}


def _preview(rest: Rest, args: argparse.Namespace) -> int:
    preview = _preview_change(rest, args.name, args.snapshot)
    if args.output == "table":
        output.listing(_changes(preview), "table", _COLUMNS)
    else:
        output.print_structured(preview, args.output)
    return 0


def _newest_that_differs(rest: Rest, name: str) -> tuple[int, Any]:
    for row in rest.get_rows(f"{_path(name)}/offset-snapshots", _LOOKED_AT):
        preview = _preview_change(rest, name, row["number"])
        if _changes(preview):
            return row["number"], preview
    message = f"None of the newest {_LOOKED_AT} snapshots of {name} differs from its offsets: name one with --to"
    raise ClientError(Exit.NOT_FOUND, message)


def _undo(rest: Rest, args: argparse.Namespace) -> int:
    if args.to is None:
        number, preview = _newest_that_differs(rest, args.name)
    else:
        number, preview = args.to, _preview_change(rest, args.name, args.to)
    if not _changes(preview):
        print(f"{args.name}: unchanged, its offsets are those of snapshot {number}")
        return 0
    output.listing(_changes(preview), "table", _COLUMNS)
    if args.dry_run:
        print(f"{args.name}: would be as in snapshot {number}")
        return 0
    if not preview["movable"]:
        raise ClientError(Exit.CONFLICT, f"{args.name} is not stopped: `ringfence connectors stop {args.name} --wait`")
    confirm(args.name, f"restore snapshot {number}", args.yes)
    rest.call("POST", f"{_path(args.name)}/offset-snapshots/{number}/restore", {})
    print(f"{args.name}: its offsets are those of snapshot {number}; `undo` once more takes this back")
    return 0


__all__ = ["add_arguments", "run"]

_MISSING = object()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = Actions(parser)
    actions.add("get", _get, "show a connector's committed source offsets", connector=True, output="table json yaml")
    change = actions.add("set", _set, "alter source offsets of a stopped connector", connector=True)
    change.add_argument("--partition", type=_object, metavar="JSON", help="one source partition")
    change.add_argument("--offset", type=_object, default=_MISSING, metavar="JSON", help="its offset; null deletes it")
    change.add_argument("-f", "--file", help="what `get -o json` prints; - for standard input")
    reset = actions.add("reset", _reset, "delete all source offsets of a stopped connector", connector=True)
    add_yes(reset)
    add(actions)


def _object(text: str) -> Any:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not JSON: {error}") from error
    if value is not None and not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"{text!r} is not a JSON object")
    return value


def _get(rest: Rest, args: argparse.Namespace) -> int:
    answer = rest.call("GET", f"/connectors/{segment(args.name)}/offsets")
    if args.output != "table":
        output.print_structured(answer, args.output)
    else:
        rows = [(json.dumps(row["partition"]), json.dumps(row["offset"])) for row in answer["offsets"]]
        output.table(("PARTITION", "OFFSET"), rows)
    return 0


def _set(rest: Rest, args: argparse.Namespace) -> int:
    if (args.file is None) == (args.partition is None) or (args.file is None) == (args.offset is _MISSING):
        raise ClientError(Exit.USAGE, "Give either --partition and --offset, or -f FILE")
    body = (
        {"offsets": [{"partition": args.partition, "offset": args.offset}]} if args.file is None else _file(args.file)
    )
    print(rest.call("PATCH", f"/connectors/{segment(args.name)}/offsets", body)["message"])
    return 0


def _file(path: str) -> Any:
    try:
        return json.loads(sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ClientError(Exit.LOCAL, f"{path} cannot be read as JSON: {error}") from error


def _reset(rest: Rest, args: argparse.Namespace) -> int:
    confirm(args.name, "delete its offsets", args.yes)
    print(rest.call("DELETE", f"/connectors/{segment(args.name)}/offsets")["message"])
    return 0
