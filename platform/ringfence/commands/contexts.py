"""`ringfence contexts`: manages named servers."""

import argparse
import getpass
import sys

from ringfence.client import output, rest
from ringfence.client.output import ClientError, Exit
from ringfence.subcommands import add_command


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(title="actions", dest="action", required=True, metavar="ACTION")
    add_command(actions, "list", "list contexts; * marks the current one")
    entry = add_command(actions, "set", "add or change a context, and make it the current one")
    entry.add_argument("name", help="the context's name")
    entry.add_argument("--url", required=True, help="server address")
    tokens = entry.add_mutually_exclusive_group()
    tokens.add_argument("--ask-token", action="store_true", help="prompt for the token")
    tokens.add_argument("--token-stdin", action="store_true", help="read the token from standard input")
    for name, about in (("use", "switch to a context"), ("delete", "delete a context and its token")):
        add_command(actions, name, about).add_argument("name", help="the context's name")


def run(args: argparse.Namespace) -> int:
    """Run the command. A token is never an argument: all users of the machine could read that."""
    content = rest.load()
    entries = content["contexts"]
    if args.action == "list":
        rows = [
            ("*" if name == content.get("current") else "", name, entry["url"], "yes" if entry.get("token") else "no")
            for name, entry in sorted(entries.items())
        ]
        output.table(("", "NAME", "URL", "TOKEN"), rows)
        return 0
    if args.action == "set":
        token = sys.stdin.readline().strip() if args.token_stdin else ""
        if args.ask_token:
            token = getpass.getpass("Token: ").strip()
        entries[args.name] = {"url": args.url, "token": token}
        content["current"] = args.name
    elif args.name not in entries:
        raise ClientError(Exit.USAGE, f"There is no context {args.name!r}: see `ringfence contexts list`")
    elif args.action == "use":
        content["current"] = args.name
    else:
        del entries[args.name]
        content["current"] = "" if content.get("current") == args.name else content.get("current", "")
    rest.save(content)
    return 0
