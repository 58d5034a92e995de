"""`ringfence apply`: makes a server hold what files ask for, over REST."""

import argparse
import sys

from ringfence.client import desired, plans
from ringfence.client.arguments import add_server, add_yes, run
from ringfence.client.output import ClientError, Exit, confirm
from ringfence.client.plans import Plan, Sign
from ringfence.client.rest import Rest

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run_action=_apply)
    parser.add_argument(
        "-f", "--file", required=True, metavar="DIR", help="folder with YAML, JSON and properties files, one file, or -"
    )
    parser.add_argument(
        "--prune", action="store_true", help="remove what no file names, of the kinds that the files have"
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help=f"show the plan, change nothing; exit code {Exit.CHANGES} if it has changes",
    )
    add_yes(parser)
    add_server(parser)


def _apply(rest: Rest, args: argparse.Namespace) -> int:
    target = desired.read(args.file)
    plan = plans.make(rest, target, prune=args.prune)
    print("\n".join(plan.show()))
    for note in target.notes:
        print(note, file=sys.stderr)
    if plan.errors:
        raise ClientError(plan.errors[0][1], "Nothing was changed: not all of it can be carried out")
    if args.dry_run or not plan.changes:
        return int(Exit.CHANGES) if plan.changes else 0
    if any(change.stops or change.sign is Sign.REMOVE for change in plan.changes):
        confirm("apply", "carry it out", args.yes)
    return _carry_out(rest, plan)


def _carry_out(rest: Rest, plan: Plan) -> int:
    """Try each change, also after one that fails: they hardly depend on each other, and the next run does the rest."""
    code = 0
    for change in plan.changes:
        try:
            change.act(rest)
        except ClientError as error:
            print(f"{change.what}: {error}", file=sys.stderr)
            code = code or error.code
        else:
            print(f"{change.what}: {_DONE[change.sign]}")
    return code


_DONE = {Sign.CREATE: "created", Sign.CHANGE: "changed", Sign.REMOVE: "removed"}
