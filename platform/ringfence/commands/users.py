"""`ringfence users`: manages accounts and their permissions, in the server's database."""

import argparse
import getpass
import os
import sys
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.table import Table

from ringfence.commands.server_arguments import add_data_argument, add_topics, connect
from ringfence.local.errors import LocalError
from ringfence.subcommands import add_command

if TYPE_CHECKING:
    from django.contrib.auth.models import User


_QUOTAS: Final = {
    "connectors": "how many connectors the account may have in all (default: 500; no limit for admin on *)",
    "tasks": "the largest sum of their tasks.max (default: 2000)",
    "config_bytes": "the largest size of their configurations in all (default: 33554432)",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(title="actions", dest="action", required=True, metavar="ACTION")
    listing = add_command(actions, "list", "list accounts and their permissions")
    create = add_command(actions, "create", "create an account; prompts for its password")
    create.add_argument("name", help="the account's name")
    create.add_argument("--no-password", action="store_true", help="an account without a login, for tokens only")
    _add_grant(create, required=False)
    password = add_command(actions, "password", "set a new password")
    password.add_argument("name", help="the account's name")
    for action in (create, password):
        action.add_argument("--password-stdin", action="store_true", help="read the password from standard input")
    grant = add_command(actions, "grant", "grant roles or permissions on connectors whose names match a pattern")
    ungrant = add_command(actions, "ungrant", "revoke the grant for exactly this pattern")
    disable = add_command(actions, "disable", "disable an account and its tokens immediately")
    enable = add_command(actions, "enable", "enable a disabled account again")
    for action in (grant, ungrant, disable, enable):
        action.add_argument("name", help="the account's name")
    link = add_command(actions, "link", "link a person of the identity provider to an existing account")
    link.add_argument("name", help="the account's name")
    link.add_argument(
        "--subject",
        required=True,
        help="the person's `sub` at the provider; the audit entry of a refused login shows it",
    )
    unlink = add_command(actions, "unlink", "remove an account's link to the identity provider")
    unlink.add_argument("name", help="the account's name")
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
    parser.add_argument(
        "--pattern", default="*", metavar="GLOB", help="connector names that the grant covers (default: *)"
    )
    add_topics(parser)
    for quota, what in _QUOTAS.items():
        parser.add_argument(f"--{quota.replace('_', '-')}", type=int, metavar="N", help=what)


def _quotas(args: argparse.Namespace) -> dict[str, int]:
    return {quota: value for quota in _QUOTAS if (value := getattr(args, quota)) is not None}


def run(args: argparse.Namespace) -> int:
    """Run the command. Returns 0, or raises `LocalError` with a remedy."""
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
            accounts.create(args.name, password, args.allow or [], args.pattern, args.topics, quotas=_quotas(args))
        elif args.action == "password":
            accounts.set_password(args.name, _password(args.password_stdin))
        elif args.action == "grant":
            accounts.grant(args.name, args.allow, args.pattern, args.topics, quotas=_quotas(args))
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
    from ringfence.audit import accounts

    if not args.issuer:
        raise LocalError("Name the provider: --issuer URL, or RINGFENCE_OIDC_ISSUER as the web process has it")
    if args.action == "link":
        accounts.link(args.name, args.issuer, args.subject)
    else:
        accounts.unlink(args.name, args.issuer)


def _password(from_stdin: bool) -> str:
    if from_stdin:
        return sys.stdin.readline().rstrip("\n")
    first = getpass.getpass("Password: ")
    if getpass.getpass("Repeat: ") != first:
        raise LocalError("The two passwords differ: nothing was changed, try again")
    return first


def _list(users: "list[User]") -> None:
    table = Table("NAME", "STATE", "MAY", box=None)
    for user in users:
        grants = [str(grant) for grant in user.grants.all()]
        table.add_row(user.username, "active" if user.is_active else "disabled", ", ".join(grants) or "nothing")
    Console().print(table)
