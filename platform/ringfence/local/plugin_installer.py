"""Installs plugins in the worker's `plugin.install.path`, when users request them on the page or in the API."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from ringfence.connectors.java.runtime import INSTALL_PATH
from ringfence.connectors.plugin_names import NAME_RULE, are_coordinates, is_package, is_wheel
from ringfence.engine.plugins.installations import InstallFailed
from ringfence.local import maven_plugins
from ringfence.local.errors import LocalError
from ringfence.local.plugin_archive import install_archive
from ringfence.local.plugin_contents import digest, read_contents
from ringfence.local.python_plugins import install_package, install_wheel
from ringfence.local.scratch import scratch_beside


class PluginInstaller:
    """Installs into one folder; see `engine.plugins.installations.Installer`. mirror: of Maven Central, "" for none."""

    def __init__(self, folder: Path, mirror: str = "") -> None:
        self._folder = folder
        self._mirror = mirror

    def fetch(self, plugin: str) -> Mapping[str, object]:
        try:
            return _describe(install(plugin, self._folder, self._mirror))
        except LocalError as error:
            raise InstallFailed(str(error)) from error

    def unpack(self, name: str, sha256: str, pieces: Iterable[bytes]) -> Mapping[str, object]:
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
