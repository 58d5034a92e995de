"""The places that FilesSource reads files from."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib.util import find_spec
from typing import Final

from ringfence.connectors.api import ConfigKey, ConnectorError, Importance, ParsedConfig, ShownIf
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

__all__ = ["PLACES", "FileChanged", "FileInfo", "OpenedFile", "Place", "list_place_settings", "open_place", "require"]


def list_place_settings() -> Iterator[ConfigKey]:
    """The settings of all places, each shown only for addresses of its place; there it is not among the advanced ones
    unless its importance is low.
    """
    for place in PLACES.values():
        recommender = ShownIf(URL, lambda url, scheme=place.scheme: address_of(url).startswith(f"{scheme}://"))  # type: ignore[misc]
        for key in place.settings.keys.values():
            importance = Importance.HIGH if key.importance is Importance.MEDIUM else key.importance
            yield replace(key, recommender=recommender, importance=importance, display_name=_label(key.name))


def _label(name: str) -> str:
    """`s3.access.key` as `Access key`: the group names the place."""
    words = name.partition(".")[2].replace(".", " ")
    return (words[0].upper() + words[1:]).replace(" url", " URL").replace("Sas", "SAS")


def address_of(url: str) -> str:
    """Return the address that is meant: an absolute path is a folder of this machine, `file://` before it."""
    address = url.strip()
    return f"file://{address}" if address.startswith("/") else address


def open_place(url: str, settings: ParsedConfig) -> Place:
    """Return the place at an address. Raises `ConnectorError`."""
    address = address_of(url)
    scheme, separator, _ = address.partition("://")
    place = PLACES.get(scheme) if separator else None
    if place is None:
        schemes = ", ".join(f"{scheme}://" for scheme in PLACES)
        raise ConnectorError(
            f"{URL} {url!r} is not an address that files can be read from: it must begin with one of {schemes}."
        )
    require(place.module, f"Files at {scheme}:// addresses", place.extra)
    return place(address, settings)


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
