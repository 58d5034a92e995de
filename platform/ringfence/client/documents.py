"""Connector configurations in files (JSON, YAML, properties), and the differences between two."""

import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ringfence.client.output import ClientError, Exit, escape
from ringfence.client.rest import Rest, segment
from ringfence.connectors.sdk import properties

MOST_BYTES: Final = 16 << 20
HIDDEN = "[hidden]"
"""What the server shows in place of a secret; sent back, it keeps the stored value."""


@dataclass(frozen=True, slots=True)
class Document:
    """A connector as a file describes it."""

    name: str
    config: dict[str, str]


def read(path: str, name: str | None = None) -> list[Document]:
    """Read all connectors of a file, `-` for standard input: `{name, config}` or a flat map, one or a list."""
    try:
        text = sys.stdin.read() if path == "-" else read_file(Path(path))
    except (OSError, UnicodeDecodeError) as error:
        raise ClientError(Exit.LOCAL, f"{path} cannot be read: {error}") from error
    documents = [read_value(value, path, name) for value in parse(text, path)]
    if not documents:
        raise ClientError(Exit.INVALID, f"{path} holds no connector")
    if name is not None and len(documents) > 1:
        raise ClientError(Exit.INVALID, f"{path} holds {len(documents)} connectors: leave the name out")
    return documents


def read_file(path: Path) -> str:
    """Return the text of a file. Raises `ClientError` for one that is too large, OSError and UnicodeDecodeError."""
    with path.open("rb") as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ClientError(Exit.INVALID, f"{path} has more than {MOST_BYTES >> 20} MiB: divide it into several files")
    return content.decode()


def parse(text: str, path: str) -> list[object]:
    """Parse a string: properties by the file's name, else YAML, which includes JSON."""
    if path.endswith(".properties"):
        try:
            return list(properties.read_several(text))
        except properties.MalformedLine as error:
            raise ClientError(Exit.INVALID, f"{path} {error}") from error
    from ringfence.yaml_documents import read_documents

    try:
        values = json_values(text) if path.endswith(".json") else list(read_documents(text, aliases=True))
    except (ValueError, RecursionError) as error:
        raise ClientError(Exit.INVALID, f"{path} is neither JSON nor YAML: {error}") from error
    flat: list[object] = []
    for value in values:
        flat += value if isinstance(value, list) else [value]
    return flat


def json_values(text: str) -> list[object]:
    """Parse JSON, with numbers and booleans as they are written."""
    return [json.loads(text, parse_int=str, parse_float=str)]


def read_value(value: object, path: str, name: str | None = None) -> Document:
    """Read one connector: `{name, config}` or a flat map. path: for messages; name: if the value has none."""
    if not isinstance(value, dict):
        raise ClientError(Exit.INVALID, f"{path}: a connector must be a map of settings, or have name and config")
    outer_name = value.get("name")
    settings = value.get("config") if isinstance(value.get("config"), dict) else value
    assert isinstance(settings, dict)
    config = {str(key): _text(item, str(key), path) for key, item in settings.items()}
    connector = name or str(outer_name or config.get("name") or "")
    if not connector:
        raise ClientError(Exit.INVALID, f"{path} does not name its connector: add name, or give it on the command line")
    if config.get("name", connector) != connector:
        raise ClientError(Exit.INVALID, f"{path} names {config['name']}, not {connector}")
    return Document(connector, {**config, "name": connector})


def _text(value: object, key: str, path: str) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case _:
            raise ClientError(Exit.INVALID, f"{path}: the value of {key} must be a string, a number or a boolean")


def write(config: Mapping[str, str], form: str) -> str:
    """Format a configuration as json, yaml or properties, sorted."""
    ordered = dict(sorted(config.items()))
    if form == "json":
        return json.dumps(ordered, indent=2, ensure_ascii=False) + "\n"
    if form == "properties":
        return properties.write(ordered)
    import yaml

    return yaml.safe_dump(ordered, allow_unicode=True, default_flow_style=False)


def difference(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """Return lines for people: + added, - removed, ~ changed. If the old value is hidden, so is the new one.

    Only the server knows what differs behind a mask; a mask in the new one keeps the stored value.
    """
    lines = []
    for key in sorted(old.keys() | new.keys()):
        if key not in new:
            lines.append(f"- {key} = {old[key]}")
        elif key not in old:
            lines.append(f"+ {key} = {new[key]}")
        elif old[key] == HIDDEN and new[key] != HIDDEN:
            lines.append(f"~ {key} = {HIDDEN} -> (a value that cannot be compared)")
        elif old[key] != new[key]:
            lines.append(f"~ {key} = {old[key]} -> {new[key]}")
    return [escape(line) for line in lines]


def edit(rest: Rest, name: str) -> list[str]:
    """Open it in the editor, and send the changes. Returns the differences. Never overwrites a concurrent change."""
    command = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not command:
        raise ClientError(Exit.USAGE, "Neither VISUAL nor EDITOR names an editor: set one, or use apply -f FILE")
    stored, tag = _fetch_stored(rest, name)
    descriptor, file = tempfile.mkstemp(prefix="ringfence-", suffix=".yaml")  # mode 0600
    with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
        opened.write(f"# A value that stays {HIDDEN} is kept.\n" + write(stored, "yaml"))
    try:
        subprocess.run([*shlex.split(command), file], check=True)
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        Path(file).unlink()
        raise ClientError(Exit.LOCAL, f"The editor failed ({error}): nothing was changed") from error
    try:
        (document,) = read(file, name)
        lines = difference(stored, document.config)
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
