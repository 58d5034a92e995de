"""Fetch a Kafka Connect plugin from Maven Central into a folder of `plugin.path`."""

import hashlib
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Final

from ringfence.connectors.java.discovery import find_plugins
from ringfence.local.errors import LocalError
from ringfence.local.jars import Coordinate, resolve

_COORDINATE: Final = re.compile(r"([\w.-]+):([\w.-]+):([\w.+-]+)")


def parse(text: str) -> Coordinate:
    """Of `group:artifact:version`. Raises LocalError."""
    found = _COORDINATE.fullmatch(text.strip())
    if found is None:
        raise LocalError(
            f"{text!r} is no Maven coordinate: write group:artifact:version, such as "
            "io.debezium:debezium-connector-postgres:3.7.0.Final"
        )
    return Coordinate(*found.groups())


def install(plugin: Coordinate, folder: Path) -> Path:
    """The plugin's own folder below `folder`, with its jar and all that it needs; as it was where it is there already.

    It appears whole or not at all: workers may be looking at `folder`. Raises LocalError, also where no jar of it
    holds a source connector.
    """
    target = folder / f"{plugin.artifact}-{plugin.version}"
    if target.is_dir():
        return target
    jars = resolve(plugin.artifact, [plugin])
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Outside of `folder`, where a half-full one would be taken for a plugin, and on its file system.
        with tempfile.TemporaryDirectory(prefix=".ringfence-plugin-", dir=folder.parent) as scratch:
            made = Path(scratch) / target.name
            shutil.copytree(jars, made)
            require_connector(f"{plugin.group}:{plugin.artifact}:{plugin.version}", Path(scratch))
            made.rename(target)
    except OSError as error:
        raise LocalError(f"{target} cannot be written: {error}") from error
    return target


def require_connector(name: str, folder: Path) -> None:
    """Raises LocalError where `folder`, one of `plugin.path`, holds none. name: what was to be installed."""
    if not find_plugins([os.fspath(folder)]):
        raise LocalError(
            f"{name} holds no source connector: no jar in it has META-INF/services/"
            "org.apache.kafka.connect.source.SourceConnector. For a plugin older than Kafka 3.6, Kafka's "
            "connect-plugin-path.sh sync-manifests writes it"
        )


def describe(place: Path) -> str:
    """For people: where an installed plugin is, its connectors with versions, and its jars as `sha256sum` has them."""
    connectors = [f"{each.class_name} {each.version}" for each in find_plugins([os.fspath(place)])]
    jars = [f"{_digest(jar)}  {jar.relative_to(place)}" for jar in sorted(place.rglob("*.jar"))]
    return "\n".join([str(place), *connectors, *jars])


def _digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
