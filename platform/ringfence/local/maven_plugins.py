"""Downloads a Kafka Connect plugin from Maven Central into a folder of `plugin.path`."""

import os
import shutil
from pathlib import Path

from ringfence.connectors.java.discovery import find_plugins
from ringfence.connectors.plugin_names import COORDINATES_RULE, are_coordinates
from ringfence.local.errors import LocalError
from ringfence.local.jars import Coordinate, resolve
from ringfence.local.scratch import put_in_place, scratch_beside


def parse(text: str) -> Coordinate:
    """Parse `group:artifact:version`. Raises LocalError."""
    coordinates = text.strip()
    if not are_coordinates(coordinates):
        raise LocalError(f"{text!r} is not a Maven coordinate: {COORDINATES_RULE}")
    return Coordinate(*coordinates.split(":"))


def install(plugin: Coordinate, folder: Path, mirror: str = "") -> Path:
    """Return the plugin's own folder below `folder`, with its jar and all dependencies. An existing one is unchanged.

    It appears whole or not at all, since workers may be reading `folder`. Raises LocalError, also if none of its jars
    contains a source connector. mirror: of Maven Central, as in `resolve`.
    """
    target = folder / f"{plugin.artifact}-{plugin.version}"
    if target.is_dir():
        return target
    jars = resolve(plugin.artifact, [plugin], mirror)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with scratch_beside(folder) as scratch:
            new_folder = scratch / target.name
            shutil.copytree(jars, new_folder)
            require_connector(f"{plugin.group}:{plugin.artifact}:{plugin.version}", scratch)
            put_in_place(new_folder, target)
    except OSError as error:
        raise LocalError(f"{target} cannot be written: {error}") from error
    return target


def require_connector(name: str, folder: Path) -> None:
    """Raise LocalError if `folder`, one of `plugin.path`, contains no source connector. name: what was to
    be installed.
    """
    if not find_plugins([os.fspath(folder)]):
        raise LocalError(
            f"{name} contains no source connector: no jar in it has "
            "META-INF/services/org.apache.kafka.connect.source.SourceConnector. For a plugin older than Kafka 3.6, "
            "Kafka's connect-plugin-path.sh sync-manifests creates it"
        )
