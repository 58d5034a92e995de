"""Names of plugins to install: Maven coordinates, a Python package, or a file. Pure."""

import re
from typing import Final

_GROUP = r"\w[\w-]*(\.[\w-]+)*"
_COORDINATES: Final = re.compile(rf"{_GROUP}:{_GROUP}:(?=[^:]*\d)\w[\w.+-]*(?<!\+)", re.ASCII)
"""A version has a digit: `latest.release` is none, and neither is `1.+`, of which Ivy takes the newest."""
_PACKAGE: Final = re.compile(r"[A-Za-z0-9][\w.-]*(\[[\w., -]+\])?==[\w.+!-]+", re.ASCII)
_FILE: Final = re.compile(r"[A-Za-z0-9][\w.+-]*\.(zip|jar|whl)", re.ASCII)
FILE_RULE: Final = (
    "give a .zip, .jar or .whl whose name consists of letters, digits and . _ + -. Unpack a tar.gz yourself, into a "
    "separate folder"
)
COORDINATES_RULE: Final = "write group:artifact:version, such as io.debezium:debezium-connector-postgres:3.5.0.Final"
PACKAGE_RULE: Final = "write name==version, such as acme-source==1.2.0"
NAME_RULE: Final = f"for Java, {COORDINATES_RULE}; for Python, {PACKAGE_RULE}"


def is_file_name(name: str) -> bool:
    """Return whether a file with this name may be a plugin."""
    return _FILE.fullmatch(name) is not None


def is_wheel(name: str) -> bool:
    """Return whether a file with this name is a Python plugin."""
    return name.endswith(".whl")


def are_coordinates(text: str) -> bool:
    """Return whether this is Maven's `group:artifact:version`."""
    return _COORDINATES.fullmatch(text) is not None


def is_package(text: str) -> bool:
    """Return whether this is one version of a Python package, `name==version`, optionally with extras in brackets."""
    return _PACKAGE.fullmatch(text) is not None
