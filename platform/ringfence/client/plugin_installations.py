"""Installs a plugin on all workers over the API: uploads a file in parts, and waits for the result."""

import base64
import hashlib
import sys
import time
from pathlib import Path
from typing import Any, Final

from ringfence.client.exit_codes import ClientError, Exit
from ringfence.client.rest import Rest

_ROUTE: Final = "/api/v1/plugin-installations"
_PIECE: Final = 2 * 1024 * 1024
_LOOK_SECONDS: Final = 1.0


def install(rest: Rest, plugin: str, seconds: float) -> dict[str, Any]:
    """Return the API's description of the installation as soon as each worker has the plugin.

    plugin: Maven coordinates, or the path of a file. Raises ClientError if a worker cannot install it, or after
    `seconds`; then the workers continue in the background.
    """
    file = Path(plugin)
    receipt = _send(rest, file) if file.is_file() else rest.call("POST", _ROUTE, {"plugin": plugin})
    end = time.monotonic() + seconds
    while True:
        installation: dict[str, Any] = rest.call("GET", f"{_ROUTE}/{receipt['id']}")
        if installation["state"] not in ("receiving", "running"):
            return installation
        if time.monotonic() > end:
            waiting = ", ".join(
                each["worker"] for each in installation["workers"] if each["state"] in ("waiting", "running")
            )
            raise ClientError(
                Exit.WAITED, f"Not installed on {waiting} within {seconds:g} s: the workers continue. See /ui/plugins"
            )
        time.sleep(_LOOK_SECONDS)


def _send(rest: Rest, file: Path) -> dict[str, Any]:
    with file.open("rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
    size = file.stat().st_size
    row: dict[str, Any] = rest.call("POST", _ROUTE, {"plugin": file.name, "size": size, "sha256": digest})
    with file.open("rb") as opened:
        for start in range(0, size, _PIECE):
            content = base64.b64encode(opened.read(_PIECE)).decode()
            row = rest.call("POST", f"{_ROUTE}/{row['id']}/bytes", {"start": start, "content": content})
            print(f"sent {row['received']:,} of {size:,} bytes", file=sys.stderr)
    return row
