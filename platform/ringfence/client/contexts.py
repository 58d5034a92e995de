"""Contexts: named servers with their tokens, in ~/.config/ringfence/contexts.json, readable by the owner only."""

import contextlib
import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ringfence.client.output import ClientError, Exit
from ringfence.local.data_directory import default_root

DEFAULT_URL = "http://127.0.0.1:8083"


@dataclass(frozen=True, slots=True)
class Server:
    """A server's address, and the token for it ("" for none)."""

    url: str
    token: str = ""

    def __repr__(self) -> str:
        return f"Server({self.url!r})"


def path() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base) / "ringfence" / "contexts.json"


def load() -> dict[str, Any]:
    """{"current": name, "contexts": {name: {"url", "token"}}}."""
    try:
        content = json.loads(path().read_text())
        if not isinstance(content, dict) or not isinstance(content.get("contexts"), dict):
            raise TypeError
    except FileNotFoundError:
        return {"current": "", "contexts": {}}
    except (OSError, ValueError, TypeError) as error:
        message = f"{path()} cannot be read ({type(error).__name__}): correct or delete it"
        raise ClientError(Exit.LOCAL, message) from error
    return content


def save(contexts: dict[str, Any]) -> None:
    """Replace the whole file. It is never readable by others, not even for a moment."""
    target = path()
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor, name = tempfile.mkstemp(dir=target.parent)  # mode 0600
    with os.fdopen(descriptor, "w") as file:
        json.dump(contexts, file, indent=2)
    Path(name).replace(target)


def _local(url: str, token: str) -> Server:
    """Return the token that this user's `ringfence up` has left in its data folder. It is only sent to that address."""
    root = default_root()
    if not token:
        with contextlib.suppress(OSError, ValueError, AttributeError):
            if url == f"http://{json.loads((root / 'state.json').read_text()).get('http')}":
                token = (root / "token").read_text().strip()
    return Server(url, token)


def server(url: str | None, context: str | None) -> Server:
    """Return the first of --url, --context, RINGFENCE_URL, the current context, and loopback that is set.

    RINGFENCE_TOKEN takes precedence over a context's token. A context's token is only sent to its own server.
    """
    token = os.environ.get("RINGFENCE_TOKEN", "")
    if url or (not context and os.environ.get("RINGFENCE_URL")):
        return _local((url or os.environ["RINGFENCE_URL"]).rstrip("/"), token)
    content = load()
    name = context or content.get("current", "")
    if not name:
        return _local(DEFAULT_URL, token)
    if name not in content["contexts"]:
        names = ", ".join(sorted(content["contexts"])) or "none yet"
        raise ClientError(Exit.USAGE, f"There is no context {name!r} (known: {names}): see `ringfence contexts set`")
    entry = content["contexts"][name]
    return Server(str(entry.get("url", "")).rstrip("/"), token or str(entry.get("token", "")))
