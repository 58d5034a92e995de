"""`ringfence connectors proof`: count in Kafka whether a connector was exactly once, and print the report."""

import argparse
import sys
from time import monotonic, sleep
from typing import Any

from ringfence.client import output
from ringfence.client.arguments import Actions
from ringfence.client.output import ClientError, Exit
from ringfence.client.rest import Rest, segment

_PAUSE_SECONDS = 0.5
_GRACE_SECONDS = 60.0
_SECONDS = 300


def add(actions: Actions) -> None:
    about = "check in Kafka that a connector was exactly once; the exit code is 1 if it was not"
    action = actions.add("proof", _prove, about, connector=True, output="text json yaml")
    action.add_argument("--last", action="store_true", help="show the newest report without counting again")
    action.add_argument("--number", type=int, metavar="N", help="show this report without counting again")
    action.add_argument(
        "--seconds", type=int, default=_SECONDS, metavar="N", help=f"how long the count may take (default: {_SECONDS})"
    )


def _prove(rest: Rest, args: argparse.Namespace) -> int:
    path = f"/api/v1/connectors/{segment(args.name)}/proof"
    if args.last or args.number is not None:
        proof = rest.call("GET", path, **({"number": str(args.number)} if args.number is not None else {}))
    else:
        proof = _await(rest, path, rest.call("POST", path, {"seconds": args.seconds}), args.seconds + _GRACE_SECONDS)
    report = proof["report"]
    if args.output != "text":
        output.print_structured(proof, args.output)
    if report is None:
        raise ClientError(Exit.UNKNOWN, f"proof {proof['number']} has no report: {proof['error'] or proof['state']}")
    if args.output == "text":
        sys.stdout.write(rest.get_text(path, number=str(proof["number"]), format="text"))
    return int(Exit.LOCAL) if report["verdict"] == "failed" else 0


def _await(rest: Rest, path: str, begun: Any, seconds: float) -> Any:
    """Return the finished proof. Prints each step as a line on standard error. Raises WAITED after `seconds`."""
    until, last_line = monotonic() + seconds, ""
    proof = begun
    while proof["state"] in ("waiting", "running"):
        if monotonic() > until:
            raise ClientError(Exit.WAITED, f"proof {proof['number']} is still running: look again with --last")
        line = proof["doing"] or "waiting for a worker"
        if proof["total"]:
            line += f": {100 * proof['done'] // proof['total']} %"
        if line != last_line:
            last_line = line
            print(line, file=sys.stderr)
        sleep(_PAUSE_SECONDS)
        proof = rest.call("GET", path, number=str(begun["number"]))
    return proof
