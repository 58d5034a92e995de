"""Installs plugins in the worker's `plugin.install.path`, when users request them on the page or in the API: whole,
or not at all.
"""

import os
import re
import shutil
import stat
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final
from zipfile import BadZipFile, ZipFile, ZipInfo

from ringfence.connectors.java.runtime import INSTALL_PATH
from ringfence.connectors.plugin_names import FILE_RULE, NAME_RULE, are_coordinates, is_file_name, is_package, is_wheel
from ringfence.engine.plugins.installations import InstallFailed
from ringfence.local import java_connectors, maven_plugins
from ringfence.local.errors import LocalError
from ringfence.local.maven_plugins import require_connector
from ringfence.local.plugin_contents import digest, read_contents
from ringfence.local.python_plugins import install_package, install_wheel
from ringfence.local.scratch import put_in_place, scratch_beside

_UNSAFE: Final = re.compile(r"[\\:\x00-\x1f\x7f]")
_PIECE: Final = 1024 * 1024
_ENCRYPTED: Final = 0x1


@dataclass(frozen=True, slots=True)
class Limits:
    """archive: bytes of the file itself. unpacked: bytes of all files in it. files: their number, including folders."""

    archive: int = 512 * 1024 * 1024
    unpacked: int = 1024 * 1024 * 1024
    files: int = 10_000


def unpack(archive: Path, into: Path, limits: Limits) -> None:
    """Unpack into an empty folder. Raises LocalError at the first refused entry; earlier ones stay there."""
    left = limits.unpacked
    with ZipFile(archive) as zip_file:
        entries = zip_file.infolist()
        if len(entries) > limits.files:
            raise LocalError(f"{archive.name} contains {len(entries):,} files; the maximum is {limits.files:,}")
        for entry in entries:
            path = into / _require_safe(archive, entry)
            if entry.is_dir():
                path.mkdir(parents=True, exist_ok=True)
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            # The size in a header is not trusted: the bytes are counted as they are unpacked.
            with zip_file.open(entry) as source, open(path, "xb") as target:
                while piece := source.read(_PIECE):
                    left -= len(piece)
                    if left < 0:
                        raise LocalError(f"{archive.name} unpacks to more than {limits.unpacked:,} bytes")
                    target.write(piece)


def _require_safe(archive: Path, entry: ZipInfo) -> PurePosixPath:
    """Return the entry's path below the plugin's folder. Raises LocalError for other paths, and if it is not a plain
    file.
    """
    path = PurePosixPath(entry.filename)
    if path.is_absolute() or ".." in path.parts or not path.parts or _UNSAFE.search(entry.orig_filename):
        raise LocalError(f"{archive.name} contains {entry.orig_filename!r}, which leads out of it. Do not trust it")
    kind = stat.S_IFMT(entry.external_attr >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR) or entry.flag_bits & _ENCRYPTED:
        raise LocalError(
            f"{archive.name} contains {entry.filename!r}, which is a link, a device or encrypted. Pack it with plain "
            "files"
        )
    return path


_LIMITS: Final = Limits()
_DIGEST: Final = ".ringfence-sha256"
"""A file in a plugin's folder with its archive's digest, so that installing the same archive again succeeds."""


def install_archive(archive: Path, folder: Path, limits: Limits = _LIMITS) -> Path:
    """Return the plugin's own folder below `folder`, named after the archive. A jar is copied into it.

    It appears whole or not at all, since workers may be reading `folder`. Raises LocalError, with the reason and the
    remedy; also if another plugin exists under this name.
    """
    if not is_file_name(archive.name):
        raise LocalError(f"{archive.name!r} is not a plugin: {FILE_RULE}")
    target = folder / archive.stem
    if target.exists():
        return _require_same(archive, target)
    try:
        _require_size(archive, limits)
        folder.mkdir(parents=True, exist_ok=True)
        with scratch_beside(folder) as scratch:
            new_folder = scratch / target.name
            new_folder.mkdir()
            if archive.suffix == ".jar":
                shutil.copyfile(archive, new_folder / archive.name)
            else:
                unpack(archive, new_folder, limits)
            (new_folder / _DIGEST).write_text(digest(archive) + "\n")
            require_connector(archive.name, scratch)
            put_in_place(new_folder, target)
    except (BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise LocalError(f"{archive.name} cannot be unpacked: {error}. Download it again") from error
    except OSError as error:
        raise LocalError(f"{archive.name} cannot be installed in {target}: {error}") from error
    return _require_same(archive, target)


def _require_same(archive: Path, target: Path) -> Path:
    """Return the folder if it was created from the same archive: now, earlier, or by another process."""
    made_of = target / _DIGEST
    if not made_of.is_file() or made_of.read_text().strip() != digest(archive):
        raise LocalError(f"{target} exists already: remove it first, or give the archive another name")
    return target


def _require_size(archive: Path, limits: Limits) -> None:
    size = archive.stat().st_size
    if size > limits.archive:
        raise LocalError(f"{archive.name} has {size:,} bytes; the maximum is {limits.archive:,}")


class PluginInstaller:
    """Installs into one folder; see `engine.plugins.installations.Installer`.

    mirror: of Maven Central, "" for none. prepare: fetches what Java plugins need to run, from this mirror.
    """

    def __init__(
        self, folder: Path, mirror: str = "", prepare: Callable[[str], None] = java_connectors.prepare
    ) -> None:
        self._folder = folder
        self._mirror = mirror
        self._prepare = prepare

    def fetch(self, plugin: str) -> Mapping[str, object]:
        if are_coordinates(plugin):
            self.prepare_java()
        try:
            return _describe(install(plugin, self._folder, self._mirror))
        except LocalError as error:
            raise InstallFailed(str(error)) from error

    def unpack(self, name: str, sha256: str, pieces: Iterable[bytes]) -> Mapping[str, object]:
        if not is_wheel(name):
            self.prepare_java()
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            # Not among temporary files, where the remains of a killed worker would stay.
            with scratch_beside(self._folder) as scratch:
                archive = scratch / Path(name).name
                with archive.open("xb") as file:
                    file.writelines(pieces)
                if digest(archive) != sha256:
                    raise InstallFailed(f"{name} does not have the SHA-256 {sha256}: send it again")
                return _describe(install_file(archive, self._folder))
        except (LocalError, OSError) as error:
            raise InstallFailed(str(error)) from error

    def prepare_java(self) -> None:
        """Called before a plugin appears, since a connector of it may be created at once."""
        try:
            self._prepare(self._mirror)
        except LocalError as error:
            raise InstallFailed(str(error)) from error


def installer_of(settings: Mapping[str, str]) -> PluginInstaller | None:
    """Return the installer; None without `plugin.install.path` in the worker's settings, since nothing may be
    installed.

    Call it before the worker removes its variables: RINGFENCE_MAVEN_URL is one.
    """
    folder = settings.get(INSTALL_PATH, "").strip()
    return PluginInstaller(Path(folder), os.environ.get("RINGFENCE_MAVEN_URL", "")) if folder else None


def install(plugin: str, folder: Path, mirror: str = "") -> Path:
    """Install a plugin; return its own folder below `folder`. plugin: a Python package in one version, or Maven
    coordinates.

    Raises LocalError. mirror: of Maven Central.
    """
    if is_package(plugin):
        return install_package(plugin, folder)
    if not are_coordinates(plugin):
        raise LocalError(f"{plugin!r} is not a plugin: {NAME_RULE}")
    return maven_plugins.install(maven_plugins.parse(plugin), folder, mirror)


def install_file(file: Path, folder: Path) -> Path:
    """Install a .whl, .zip or .jar; return its own folder. Raises LocalError."""
    return install_wheel(file, folder) if is_wheel(file.name) else install_archive(file, folder)


def _describe(folder: Path) -> Mapping[str, object]:
    contents = read_contents(folder)
    return {"folder": str(contents.folder), "connectors": dict(contents.connectors), "files": dict(contents.files)}
