"""`ringfence users`: accounts and what they may do, in the server's database."""

import argparse
import getpass
import os
import sys
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from ringfence.commands.database import add_data_argument, add_topics, connect
from ringfence.local.errors import LocalError

if TYPE_CHECKING:
    from django.contrib.auth.models import User


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(title="actions", dest="action", required=True, metavar="ACTION")
    listing = actions.add_parser("list", help="all accounts and what they may do")
    create = actions.add_parser("create", help="a new account; its password is asked for")
    create.add_argument("name")
    create.add_argument(
        "--no-password", action="store_true", help="nobody logs in as this account: it is for tokens only"
    )
    _add_grant(create, required=False)
    password = actions.add_parser("password", help="set a new password")
    password.add_argument("name")
    for action in (create, password):
        action.add_argument("--password-stdin", action="store_true", help="read the password from standard input")
    grant = actions.add_parser("grant", help="allow roles or verbs on the connectors of a pattern")
    ungrant = actions.add_parser("ungrant", help="take back what was granted on exactly this pattern")
    disable = actions.add_parser("disable", help="shut an account and its tokens out at once")
    enable = actions.add_parser("enable", help="let a disabled account in again")
    for action in (grant, ungrant, disable, enable):
        action.add_argument("name")
    link = actions.add_parser("link", help="let a person of the identity provider log in as an account that is there")
    link.add_argument("name")
    link.add_argument("--subject", required=True, help="the provider's `sub`: a refused login's audit entry has it")
    unlink = actions.add_parser("unlink", help="let nobody of the identity provider log in as this account any more")
    unlink.add_argument("name")
    _add_grant(grant, required=True)
    ungrant.add_argument("--pattern", default="*", metavar="GLOB", help="the grant's pattern (default: *)")
    for action in (link, unlink):
        action.add_argument(
            "--issuer",
            default=os.environ.get("RINGFENCE_OIDC_ISSUER", ""),
            help="the provider (default: $RINGFENCE_OIDC_ISSUER)",
        )
    for action in (listing, create, password, grant, ungrant, disable, enable, link, unlink):
        add_data_argument(action)


def _add_grant(parser: argparse.ArgumentParser, *, required: bool) -> None:
    parser.add_argument(
        "--allow",
        nargs="+",
        required=required,
        metavar="WHAT",
        help="roles (viewer, operator, editor, admin) or verbs (view, view-config, operate, edit, offsets, fence, "
        "delete)",
    )
    parser.add_argument("--pattern", default="*", metavar="GLOB", help="on connectors of these names (default: *)")
    add_topics(parser)


def run(args: argparse.Namespace) -> int:
    """0, or LocalError with what to do."""
    connect(args.data)
    from django.contrib.auth.models import User
    from django.core.exceptions import ValidationError

    from ringfence.audit import accounts

    if args.action == "list":
        _list(list(User.objects.order_by("username").prefetch_related("grants")))
        return 0
    try:
        if args.action == "create":
            password = None if args.no_password else _password(args.password_stdin)
            accounts.create(args.name, password, args.allow or [], args.pattern, args.topics)
        elif args.action == "password":
            accounts.set_password(args.name, _password(args.password_stdin))
        elif args.action == "grant":
            accounts.grant(args.name, args.allow, args.pattern, args.topics)
        elif args.action == "ungrant":
            accounts.ungrant(args.name, args.pattern)
        elif args.action in ("link", "unlink"):
            _link(args)
        else:
            accounts.set_active(args.name, args.action == "enable")
    except (ValueError, ValidationError) as error:
        raise LocalError(" ".join(error.messages) if isinstance(error, ValidationError) else str(error)) from error
    print(f"{args.name}: {args.action} done.")
    return 0


def _link(args: argparse.Namespace) -> None:
    from ringfence.audit import sign_on

    if not args.issuer:
        raise LocalError("Name the provider: --issuer URL, or RINGFENCE_OIDC_ISSUER as the web process has it")
    if args.action == "link":
        sign_on.link(args.name, args.issuer, args.subject)
    else:
        sign_on.unlink(args.name, args.issuer)


def _password(from_stdin: bool) -> str:
    if from_stdin:
        return sys.stdin.readline().rstrip("\n")
    first = getpass.getpass("Password: ")
    if getpass.getpass("Once more: ") != first:
        raise LocalError("The two passwords differ: nothing was changed, try again")
    return first


def _list(users: "list[User]") -> None:
    table = Table("NAME", "STATE", "MAY", box=None)
    for user in users:
        grants = [str(grant) for grant in user.grants.all()]
        table.add_row(user.username, "active" if user.is_active else "disabled", ", ".join(grants) or "nothing")
    Console().print(table)
