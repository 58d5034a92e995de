"""Fetch a Kafka Connect plugin from Maven Central into a folder of `plugin.path`."""

import re
import shutil
import tempfile
from pathlib import Path
from typing import Final

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

    It appears whole or not at all: workers may be looking at `folder`. Raises LocalError.
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
            made.rename(target)
    except OSError as error:
        raise LocalError(f"{target} cannot be written: {error}") from error
    return target
