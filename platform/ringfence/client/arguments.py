"""The arguments that every client command has, and how commands declare their actions."""

import argparse
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout

from ringfence.client import rest
from ringfence.client.output import SafeStream
from ringfence.client.rest import TIMEOUT_SECONDS, Rest
from ringfence.subcommands import sentence

Run = Callable[[Rest, argparse.Namespace], int]


class Actions:
    """The actions of one command: `ringfence connectors list`."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self.parsers = parser.add_subparsers(title="actions", dest="action", required=True, metavar="ACTION")

    def add(
        self, name: str, run: Run, about: str, *, connector: bool = False, output: str = ""
    ) -> argparse.ArgumentParser:
        """Declare an action. output: the formats of `-o`, the default first; "" for none."""
        parser = self.parsers.add_parser(name, help=about, description=sentence(about))
        parser.set_defaults(run_action=run)
        if connector:
            parser.add_argument("name", metavar="CONNECTOR", help="the connector's name")
        if output:
            forms = output.split()
            parser.add_argument(
                "-o", "--output", choices=forms, default=forms[0], help=f"output format (default: {forms[0]})"
            )
        add_server(parser)
        return parser


def add_server(parser: argparse.ArgumentParser) -> None:
    """Declare which server is meant, and how long it may take."""
    parser.add_argument(
        "--url", help="server address (default: $RINGFENCE_URL, else the current context, else loopback)"
    )
    parser.add_argument("--context", help="use the server and token of this context (see `ringfence contexts`)")
    parser.add_argument(
        "--timeout", type=float, default=TIMEOUT_SECONDS, metavar="SECONDS", help="limit for each request"
    )


def add_reason(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--reason", required=True, help="reason, for the audit trail and the connector's events")


def add_yes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")


def run(args: argparse.Namespace) -> int:
    """Run an action against the server that the arguments name."""
    action: Run = args.run_action
    with redirect_stdout(SafeStream(sys.stdout)), redirect_stderr(SafeStream(sys.stderr)):
        return action(Rest(rest.server(args.url, args.context), args.timeout), args)
