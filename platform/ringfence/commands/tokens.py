"""`ringfence tokens`: manages tokens for scripts and tools, in the server's database."""

import argparse
import re
from datetime import UTC, datetime

from rich.console import Console
from rich.table import Table

from ringfence.commands.server_arguments import add_data_argument, add_topics, connect
from ringfence.local.errors import LocalError
from ringfence.subcommands import add_command

_UNITS = {"h": 3600, "d": 86_400, "w": 604_800}


def seconds(text: str) -> float:
    """Parse `12h`, `90d`, `4w`, or `never`, which is 0."""
    if text == "never":
        return 0
    match = re.fullmatch(r"([1-9]\d{0,4})([hdw])", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time: use 12h, 90d, 4w or never")
    return int(match[1]) * _UNITS[match[2]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(title="actions", dest="action", required=True, metavar="ACTION")
    listing = add_command(actions, "list", "list tokens, without their secret parts")
    create = add_command(actions, "create", "create a token; it is shown only once")
    create.add_argument("user", help="the token's account; a token can never do more than its account")
    create.add_argument("name", help="a name that says what the token is for")
    create.add_argument(
        "--allow", nargs="+", required=True, metavar="WHAT", help="roles or permissions, as in `users grant`"
    )
    create.add_argument(
        "--pattern", default="*", metavar="GLOB", help="connector names that the token covers (default: *)"
    )
    add_topics(create)
    create.add_argument(
        "--expires",
        type=seconds,
        default=seconds("90d"),
        metavar="TIME",
        help="lifetime: 12h, 90d, 4w or never (default: 90d)",
    )
    revoke = add_command(actions, "revoke", "revoke a token immediately")
    revoke.add_argument("id", type=int, help="the token's number, from `tokens list`")
    for action in (listing, create, revoke):
        add_data_argument(action)


def run(args: argparse.Namespace) -> int:
    """Run the command. Returns 0, or raises `LocalError` with a remedy."""
    connect(args.data)
    from ringfence.audit import accounts

    if args.action == "list":
        _list()
        return 0
    try:
        if args.action == "revoke":
            accounts.revoke_token(args.id)
            print(f"Token {args.id} is revoked.")
        else:
            print(accounts.create_token(args.user, args.name, args.allow, args.pattern, args.expires, args.topics))
    except ValueError as error:
        raise LocalError(str(error)) from error
    return 0


def _list() -> None:
    from ringfence.access.models import Token

    table = Table("ID", "USER", "NAME", "BEGINS", "MAY", "STATE", "EXPIRES", "LAST USED", box=None)
    for token in Token.objects.select_related("user").order_by("id"):
        table.add_row(
            str(token.pk),
            token.user.get_username(),
            token.name,
            token.hint,
            str(token),
            token.state,
            _time(token.expires_ms),
            _time(token.last_used_ms),
        )
    Console().print(table)


def _time(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M") if milliseconds else "never"
