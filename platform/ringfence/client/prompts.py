"""Questions to the person at the keyboard before something that cannot be taken back."""

import sys

from ringfence.client.exit_codes import ClientError, Exit


def confirm(name: str, purpose: str, yes: bool) -> None:
    """The connector's name must be typed, unless `yes`. Raises `ClientError` for anything else, or nobody to ask."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise ClientError(Exit.USAGE, "Nobody is there to ask: add --yes")
    if input(f"Type {name} to {purpose}: ") != name:
        raise ClientError(Exit.LOCAL, "The name does not match: nothing was changed")
