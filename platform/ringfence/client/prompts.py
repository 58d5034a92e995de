"""Asks the user to confirm what cannot be undone."""

import sys

from ringfence.client.exit_codes import ClientError, Exit


def confirm(name: str, purpose: str, yes: bool) -> None:
    """Have the user type the connector's name, unless `yes`. Raises `ClientError` for other input, or without a
    terminal.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise ClientError(Exit.USAGE, "There is no terminal to ask for confirmation: add --yes")
    if input(f"Type {name} to {purpose}: ") != name:
        raise ClientError(Exit.LOCAL, "The name does not match: nothing was changed")
