"""Installs connectors of Apache Camel."""

import shutil
from pathlib import Path

from ringfence.connectors.java.discovery import find_plugins
from tests.support.java_plugins import CAMEL_CLASS, write_manifests

TEXT = "org.apache.kafka.connect.storage.StringConverter"


def install(folder: Path, jars: Path) -> Path:
    """In `folder`, a plugin that is found only once its manifests are there."""
    folder.mkdir()
    shutil.copytree(jars, folder / "camel")
    assert CAMEL_CLASS not in {each.class_name for each in find_plugins([str(folder)])}
    write_manifests(folder)
    assert CAMEL_CLASS in {each.class_name for each in find_plugins([str(folder)])}
    return folder
