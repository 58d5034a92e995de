"""What people call a plugin that is to be installed: Maven coordinates, or a file. Pure."""

import re
from typing import Final

_COORDINATES: Final = re.compile(r"[\w.-]+:[\w.-]+:[\w.+-]+", re.ASCII)
_FILE: Final = re.compile(r"[A-Za-z0-9][\w.+-]*\.(zip|jar)", re.ASCII)
FILE_RULE: Final = (
    "give a .zip or .jar whose name has letters, digits and . _ + - only. Unpack a tar.gz yourself, into a folder of "
    "its own"
)
COORDINATES_RULE: Final = "write group:artifact:version, such as io.debezium:debezium-connector-postgres:3.5.0.Final"


def is_file_name(name: str) -> bool:
    """Whether a file of this name may be a plugin."""
    return _FILE.fullmatch(name) is not None


def are_coordinates(text: str) -> bool:
    """Whether this is `group:artifact:version`."""
    return _COORDINATES.fullmatch(text) is not None
