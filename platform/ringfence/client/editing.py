"""`connectors edit`: edits a configuration in the user's editor."""

import os
import shlex
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from ringfence.client import documents
from ringfence.client.exit_codes import ClientError, Exit
from ringfence.client.rest import Rest, segment


def edit(rest: Rest, name: str) -> list[str]:
    """Open it in the editor, and send the changes. Returns the differences. Never overwrites a concurrent change."""
    command = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not command:
        raise ClientError(Exit.USAGE, "Neither VISUAL nor EDITOR names an editor: set one, or use apply -f FILE")
    stored, tag = _fetch_stored(rest, name)
    descriptor, file = tempfile.mkstemp(prefix="ringfence-", suffix=".yaml")  # mode 0600
    with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
        opened.write(f"# A value that stays {documents.HIDDEN} is kept.\n" + documents.write(stored, "yaml"))
    try:
        subprocess.run([*shlex.split(command), file], check=True)
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        Path(file).unlink()
        raise ClientError(Exit.LOCAL, f"The editor failed ({error}): nothing was changed") from error
    try:
        (document,) = documents.read(file, name)
        lines = documents.difference(stored, document.config)
        if lines:
            _send(rest, name, stored, tag, document.config)
    except ClientError as error:
        raise ClientError(Exit(error.code), f"{error}\nYour text is kept in {file}") from error
    Path(file).unlink()
    return lines


def _fetch_stored(rest: Rest, name: str) -> tuple[Any, str]:
    """Return the configuration, and its ETag of the native API; Kafka Connect has none."""
    try:
        return rest.get_with_etag(f"/api/v1/connectors/{segment(name)}/config")
    except ClientError as error:
        if error.code != Exit.NOT_FOUND:
            raise
        return rest.call("GET", f"/connectors/{segment(name)}/config"), ""


def _send(rest: Rest, name: str, stored: Any, tag: str, config: dict[str, str]) -> None:
    changed = ClientError(Exit.CONFLICT, f"{name} was changed in between: edit it again")
    path = f"/connectors/{segment(name)}/config"
    if not tag:
        if rest.call("GET", path) != stored:
            raise changed
        rest.call("PUT", path, config)
        return
    try:
        rest.call("PUT", f"/api/v1{path}", config, match=tag)
    except ClientError as error:
        raise changed if error.code == Exit.CONFLICT else error from error
