"""`connectors versions`, `diff` and `rollback`: all configurations that a connector has had."""

import argparse
from typing import Any

from ringfence.client import output, states
from ringfence.client.arguments import Actions, add_yes
from ringfence.client.output import ClientError, Exit, confirm
from ringfence.client.rest import Rest, segment


def add(actions: Actions) -> None:
    """Declare the three actions."""
    listing = actions.add(
        "versions",
        _list,
        "list the versions of a configuration, newest first",
        connector=True,
        output="table json yaml",
    )
    listing.add_argument("--limit", type=int, default=20, metavar="N", help="number of versions (default: 20)")
    diff = actions.add(
        "diff",
        _diff,
        "show the differences between two versions of a configuration",
        connector=True,
        output="text json yaml",
    )
    diff.add_argument("version", type=int, help="version number, from `versions`")
    diff.add_argument("to", type=int, nargs="?", help="version to compare with (default: the newest)")
    rollback = actions.add(
        "rollback",
        _rollback,
        "restore an earlier configuration with its secrets, also of a deleted connector",
        connector=True,
    )
    rollback.add_argument("version", type=int, help="version number, from `versions`")
    rollback.add_argument("--dry-run", action="store_true", help="show the differences without changing anything")
    rollback.add_argument(
        "--state",
        choices=("running", "paused", "stopped"),
        help="what a deleted connector is created again as (default: running)",
    )
    add_yes(rollback)
    states.add_wait(rollback)


def _path(name: str) -> str:
    return f"/api/v1/connectors/{segment(name)}"


def _list(rest: Rest, args: argparse.Namespace) -> int:
    versions = rest.get_rows(f"{_path(args.name)}/versions", args.limit)
    columns: dict[str, output.Cell] = {
        "VERSION": lambda row: f"{row['number']}{' *' if row['current'] else ''}",
        "TIME": lambda row: output.time_of(row["time_ms"]),
        "USER": lambda row: row.get("user") or "-",
        "SETTINGS": lambda row: len(row["config"]),
        "CLASS": lambda row: row["config"].get("connector.class", ""),
    }
    output.listing(versions, args.output, columns)
    return 0


def _lines(answer: Any) -> list[str]:
    """Return the differences in the format of `apply`: + added, - removed, ~ changed; secrets are masked."""
    lines = {key: f"+ {key} = {value}" for key, value in answer["added"].items()}
    lines |= {key: f"- {key} = {value}" for key, value in answer["removed"].items()}
    for key, change in answer["changed"].items():
        hidden = change["before"] == change["after"]
        lines[key] = f"~ {key} = {change['before']}" + (" -> (another one)" if hidden else f" -> {change['after']}")
    return [line for _, line in sorted(lines.items())]


def _diff(rest: Rest, args: argparse.Namespace) -> int:
    query = {} if args.to is None else {"to": str(args.to)}
    diff = rest.call("GET", f"{_path(args.name)}/versions/{args.version}/diff", **query)
    if args.output != "text":
        output.print_structured(diff, args.output)
        return 0
    lines = _lines(diff)
    print(f"{args.name}: version {diff['before']} -> {diff['after']}{'' if lines else ': nothing differs'}")
    print("".join(f"  {line}\n" for line in lines), end="")
    return 0


def _again(rest: Rest, args: argparse.Namespace) -> int:
    """Create a deleted connector again from one of its versions."""
    rest.call("GET", f"{_path(args.name)}/versions/{args.version}")  # which says where there is none
    state = (args.state or "running").upper()
    if args.dry_run:
        print(f"{args.name}: was deleted, would be created again as in version {args.version}, {state}")
        return 0
    confirm(args.name, f"create it again with the configuration of version {args.version}", args.yes)
    rest.call("POST", f"{_path(args.name)}/versions/{args.version}/rollback", {"initial_state": state})
    print(f"{args.name}: created again as in version {args.version}")
    if args.wait:
        states.until(rest, args.name, state, args.wait_seconds)
    return 0


def _rollback(rest: Rest, args: argparse.Namespace) -> int:
    if rest.find(f"{_path(args.name)}/config") is None:
        return _again(rest, args)
    if args.state is not None:
        raise ClientError(Exit.USAGE, f"{args.name} exists: --state is for a deleted connector")
    # The ETag is of the version that was compared, so a change in between is a conflict and is not overwritten.
    _, tag = rest.get_with_etag(f"{_path(args.name)}/config")
    (newest,) = rest.get_rows(f"{_path(args.name)}/versions", 1)
    diff = rest.call("GET", f"{_path(args.name)}/versions/{newest['number']}/diff", to=str(args.version))
    lines = _lines(diff)
    if not lines:
        print(f"{args.name}: unchanged, version {args.version} is what it has")
        return 0
    if args.dry_run:
        print(f"{args.name}: would be as in version {args.version}")
    else:
        confirm(args.name, f"set the configuration of version {args.version} again", args.yes)
        rest.call("POST", f"{_path(args.name)}/versions/{args.version}/rollback", {}, match=tag)
        print(f"{args.name}: as in version {args.version}")
    print("".join(f"  {line}\n" for line in lines), end="")
    if args.wait and not args.dry_run:
        states.until(rest, args.name, states.target(rest, args.name), args.wait_seconds)
    return 0
