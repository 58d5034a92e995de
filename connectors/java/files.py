"""Checks files in the configuration of a Java connector against `file.roots`.

Java code opens files itself, so this checks the configuration, not the open file: at validation, and again just before
the code starts. Kafka Connect has no type for files. So this recognizes settings by their names, and values by their
form: paths that exist on this machine, anywhere in a value. It prevents users from naming a file; it does not prevent a
plugin from opening one.
"""

import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from typing import Final

from ringfence.connectors.api import ConnectorError
from ringfence.connectors.sdk.files import ClosedFile, check
from ringfence.connectors.sdk.worker_limits import current

_NAMES_A_FILE: Final = re.compile(
    r"(^|[._-])(file|files|filename|keystore|truststore|keytab|location|dir|directory|folder)$", re.IGNORECASE
)
_ROOTED: Final = re.compile(r"""(?:(?<=^)|(?<=[\s,;:"'=(\[{&?]))(?:~?/|\.\.?/)[^\s,;"'=)\]}&?]*""")
"""Finds a possible path within a value."""
_SCHEME: Final = re.compile(r"^file:(//)?(localhost)?(?=/)", re.IGNORECASE)
_OTHER_SCHEME: Final = re.compile(r"^(?!file:)[a-z][a-z0-9+.-]+:", re.IGNORECASE)


def find_refused_files(config: Mapping[str, str]) -> dict[str, str]:
    """Return by setting why its file is refused. Does not raise."""
    limits = current()
    refusals = {}
    for name, value in config.items():
        try:
            for path in _paths(name, value):
                check(path, limits)
        except ClosedFile as error:
            refusals[name] = str(error)
        except ValueError:  # a null byte: no file has such a name
            refusals[name] = f"The value of {name} is not a path"
    return refusals


def require_allowed_files(config: Mapping[str, str]) -> None:
    """Raise `ConnectorError` for the first setting with a file outside of the roots."""
    for name, why in find_refused_files(config).items():
        raise ConnectorError(f"{name}: {why}")


def _paths(name: str, value: str) -> Iterator[str]:
    """Yield the paths in a value that must be below the roots."""
    if _NAMES_A_FILE.search(name):
        for part in value.split(","):
            plain = _SCHEME.sub("", part.strip())
            if plain and not _OTHER_SCHEME.match(plain) and _leads_elsewhere(plain):
                yield _absolute(plain)
    for match in _ROOTED.finditer(value):
        path = _absolute(match[0])
        if os.path.realpath(path) != "/" and os.path.lexists(path):
            yield path


def _absolute(path: str) -> str:
    """Resolve a path as the Java process does: its working directory is in the folder for temporary files."""
    return os.path.normpath(os.path.join(tempfile.gettempdir(), "java", os.path.expanduser(path)))


def _leads_elsewhere(path: str) -> bool:
    """Return whether a path is outside of the Java process's working directory, an empty folder of its own."""
    return os.path.isabs(path) or path.startswith("~") or ".." in path.split("/")
