"""`ringfence offsets`: source offsets, over REST. They can be changed while the connector is STOPPED."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from ringfence.client import output, snapshots
from ringfence.client.arguments import Actions, add_yes, run
from ringfence.client.output import ClientError, Exit, confirm
from ringfence.client.rest import Rest, segment

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
    snapshots.add(actions)


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
