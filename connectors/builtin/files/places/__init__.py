"""The places that FilesSource reads files from."""

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Final

from ringfence.connectors.api import ConnectorError, ParsedConfig
from ringfence.connectors.builtin.files.places.azure import AzureFolder
from ringfence.connectors.builtin.files.places.base import FileChanged, FileInfo, OpenedFile, Place
from ringfence.connectors.builtin.files.places.gcs import GcsPrefix
from ringfence.connectors.builtin.files.places.local import LocalFolder
from ringfence.connectors.builtin.files.places.s3 import S3Prefix
from ringfence.connectors.builtin.files.places.sftp import SftpFolder
from ringfence.connectors.builtin.files.settings import URL

PLACES: Final[Mapping[str, type[Place]]] = {
    place.scheme: place for place in (LocalFolder, S3Prefix, GcsPrefix, AzureFolder, SftpFolder)
}

__all__ = ["PLACES", "FileChanged", "FileInfo", "OpenedFile", "Place", "open_place", "require"]


def open_place(url: str, settings: ParsedConfig) -> Place:
    """Return the place at an address. Raises `ConnectorError`."""
    scheme, found, _ = url.strip().partition("://")
    place = PLACES.get(scheme) if found else None
    if place is None:
        known = ", ".join(f"{scheme}://" for scheme in PLACES)
        raise ConnectorError(
            f"{URL} {url!r} is not an address that files can be read from: it must begin with one of {known}."
        )
    require(place.module, f"Files at {scheme}:// addresses", place.extra)
    return place(url.strip(), settings)


def require(module: str | None, what: str, extra: str = "files") -> None:
    """Raise `ConnectorError` if a package of the extra is not installed."""
    if module is not None and not _is_installed(module):
        raise ConnectorError(
            f"{what} need {module}, which is not installed here: pip install 'ringfence[{extra}]' on every worker."
        )


def _is_installed(module: str) -> bool:
    """Importing from a package raises if that package is missing."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False
