"""The contents of an installed plugin, Java or Python."""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ringfence.connectors.java.discovery import find_plugins
from ringfence.connectors.plugin_environments import is_environment, open_environment

FILES: Final = ".ringfence-files.json"
"""In a Python plugin's folder: the SHA-256 of each installed file, by its name."""


@dataclass(frozen=True, slots=True)
class Contents:
    """An installed plugin: its folder, the version of each connector's class, and the SHA-256 of each jar or wheel."""

    folder: Path
    connectors: Mapping[str, str]
    files: Mapping[str, str]


def read_contents(folder: Path) -> Contents:
    """Read the contents of a plugin's own folder."""
    if is_environment(folder):
        python = {each.class_name: each.version for each in open_environment(folder).plugins}
        return Contents(folder, python, read_files(folder))
    connectors = {each.class_name: each.version for each in find_plugins([os.fspath(folder)])}
    jars = {str(jar.relative_to(folder)): digest(jar) for jar in sorted(folder.rglob("*.jar"))}
    return Contents(folder, connectors, jars)


def read_files(environment: Path) -> dict[str, str]:
    """Return the files of a Python plugin; {} for a manual installation."""
    try:
        files: dict[str, str] = json.loads((environment / FILES).read_text())
    except FileNotFoundError:
        return {}
    return files


def describe(folder: Path) -> str:
    """Describe an installed plugin: its folder, its connectors with versions, and its files in the form of
    `sha256sum`.
    """
    contents = read_contents(folder)
    connectors = [f"{class_name} {version}" for class_name, version in contents.connectors.items()]
    files = [f"{sha256}  {name}" for name, sha256 in contents.files.items()]
    return "\n".join([str(folder), *connectors, *files])


def digest(file: Path) -> str:
    """Return its SHA-256, in hexadecimal."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
