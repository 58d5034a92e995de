"""Installs plugins in the worker's `plugin.install.path`, when users request them on the page or in the API: whole, or
not at all. Each gets a folder of its own, a Python plugin with an environment.

A Python plugin's dependencies are resolved by pip first, which then installs exactly those files, by their SHA-256:
wheels only, each from the worker's index, so that no code of a package runs during the installation (`guarded_pip`).
The platform's own packages are not installed again, and keep their versions: the processes that run the plugin load
them.
"""

import importlib.util
import json
import logging
import os
import re
import shutil
import stat
import subprocess
import venv
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path, PurePosixPath
from typing import Any, Final
from urllib.parse import unquote
from zipfile import BadZipFile, ZipFile, ZipInfo

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from ringfence.connectors.java.discovery import find_plugins
from ringfence.connectors.java.runtime import INSTALL_PATH
from ringfence.connectors.plugin_environments import GROUP, open_environment
from ringfence.connectors.plugin_names import (
    COORDINATES_RULE,
    FILE_RULE,
    NAME_RULE,
    PACKAGE_RULE,
    are_coordinates,
    is_file_name,
    is_package,
    is_wheel,
)
from ringfence.engine.plugins.installations import InstallFailed
from ringfence.engine.spark.connector_limits import without_ours
from ringfence.local import guarded_pip, java_connectors
from ringfence.local.errors import LocalError
from ringfence.local.jars import Coordinate, resolve
from ringfence.local.plugin_folders import FILES, digest, put_in_place, read_contents, read_files, scratch_beside

log = logging.getLogger(__name__)

_PLATFORM: Final = "ringfence"
_PTH: Final = "platform.pth"
_EXTRA: Final = re.compile(r"\bextra\b")
_SECONDS: Final = 900
_MOST_TOLD: Final = 1500


def install_package(package: str, folder: Path) -> Path:
    """Return the environment of `name==version` below `folder`. An existing one is unchanged. Raises LocalError."""
    requirement = package.strip()
    if not is_package(requirement):
        raise LocalError(f"{package!r} is not a Python package: {PACKAGE_RULE}")
    name, _, version = requirement.partition("==")
    target = folder / f"{canonicalize_name(name.partition('[')[0])}-{version}"
    return target if target.is_dir() else _install(requirement, requirement, target)


def install_wheel(wheel: Path, folder: Path) -> Path:
    """Return the environment of a wheel below `folder`, named after it; its dependencies are downloaded.

    Raises LocalError, also if another wheel is installed under this name.
    """
    if not is_file_name(wheel.name):
        raise LocalError(f"{wheel.name!r} is not a plugin: {FILE_RULE}")
    parts = wheel.stem.split("-")
    if len(parts) < 5:
        raise LocalError(f"{wheel.name} is not a valid wheel name: keep the name from its build")
    target = folder / f"{canonicalize_name(parts[0])}-{parts[1]}"
    if not target.is_dir():
        _install(wheel.name, os.fspath(wheel.absolute()), target, wheel)
    if read_files(target).get(wheel.name) != digest(wheel):
        raise LocalError(f"{target} exists already, from another file: give the wheel another version")
    return target


def _install(name: str, requirement: str, target: Path, wheel: Path | None = None) -> Path:
    """Install a requirement. wheel: the local file that it names."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with scratch_beside(target.parent) as scratch:
            environment = scratch / target.name
            venv.create(environment, with_pip=False, symlinks=True)
            (packages,) = environment.glob("lib/python*/site-packages")
            versions = _show_platform(scratch / "platform", packages)
            pip = _Pip(name, environment, scratch)
            files = _files_of(pip.resolve(requirement, versions), wheel)
            pip.install(files)
            (packages / _PTH).unlink()
            (environment / FILES).write_text(json.dumps({each.file: each.sha256 for each in files}, indent=1))
            if not open_environment(environment).plugins:
                raise LocalError(
                    f"{name} contains no source connector: none of its packages has an entry point in {GROUP}"
                )
            put_in_place(environment, target)
    except OSError as error:
        raise LocalError(f"{target} cannot be written: {error}") from error
    return target


def _show_platform(folder: Path, packages: Path) -> dict[str, str]:
    """Make pip see the platform's own packages as installed in a new environment. Returns their versions by name."""
    folder.mkdir()
    distributions = {each.metadata["Name"]: each for each in _own_distributions()}
    for name, each in distributions.items():
        info = folder / f"{canonicalize_name(name).replace('-', '_')}-{each.version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(_describe_failure(each))
    (packages / _PTH).write_text(f"{folder}\n")
    return {name: each.version for name, each in distributions.items()}


def _describe_failure(own: Distribution) -> str:
    """Return the metadata that pip reads of one of the platform's packages: what it is, and what its extras require.

    Its other dependencies are installed, and constrained to their versions. pip would spend seconds on reading them.
    """
    lines = [f"{field}: {own.metadata[field]}" for field in ("Metadata-Version", "Name", "Version")]
    lines += [f"Provides-Extra: {extra}" for extra in own.metadata.get_all("Provides-Extra") or ()]
    lines += [f"Requires-Dist: {each}" for each in own.requires or () if _EXTRA.search(each.partition(";")[2])]
    return "\n".join([*lines, ""])


def _own_distributions() -> list[Distribution]:
    """Return the platform's distribution and its dependencies, without its extras."""
    distributions: dict[str, Distribution] = {}
    seen_texts: set[str] = set()
    stack = [_PLATFORM]
    while stack:
        text = stack.pop()
        requirement = Requirement(text)
        try:
            own = distributions.setdefault(canonicalize_name(requirement.name), distribution(requirement.name))
        except PackageNotFoundError:  # for another operating system, or from an extra that is not installed
            continue
        if text in seen_texts:
            continue
        seen_texts.add(text)
        for each in own.requires or ():
            marker = Requirement(each).marker
            if marker is None or any(marker.evaluate({"extra": extra}) for extra in (*requirement.extras, "")):
                stack.append(each)
    return list(distributions.values())


@dataclass(frozen=True, slots=True)
class _File:
    """A wheel to install. requirement: what names it in a requirements file."""

    requirement: str
    file: str
    sha256: str


def _files_of(report: Mapping[str, Any], wheel: Path | None) -> list[_File]:
    """Return the files of pip's installation report. wheel: the only one that may have an address of its own.

    Raises LocalError.
    """
    files: list[_File] = []
    for each in report["install"]:
        name, version = each["metadata"]["name"], each["metadata"]["version"]
        source = each["download_info"]
        file = unquote(str(source["url"]).rpartition("/")[2])
        # `hash` is all that pip 22 reports.
        algorithm, _, sha256 = source.get("archive_info", {}).get("hash", "").partition("=")
        sha256 = sha256 if algorithm == "sha256" else ""
        requirement = f"{name}=={version}"
        if each["is_direct"]:
            if wheel is None or file != wheel.name:
                raise LocalError(f"{name} {version} would come from an address of its own, not from the worker's index")
            requirement, sha256 = wheel.absolute().as_uri(), digest(wheel)
        if not sha256:
            raise LocalError(f"The index gives no SHA-256 of {file}. Use an index that does")
        files.append(_File(requirement, file, sha256))
    return files


class _Pip:
    """pip in a new environment. name: of the plugin, for errors; scratch: a folder for temporary files."""

    def __init__(self, name: str, environment: Path, scratch: Path) -> None:
        self._name = name
        self._python = environment / "bin" / "python"
        self._scratch = scratch

    def resolve(self, requirement: str, versions: Mapping[str, str]) -> Mapping[str, Any]:
        """Return pip's installation report, without an installation. versions: those that packages must have."""
        constraints, report = self._scratch / "constraints.txt", self._scratch / "report.json"
        constraints.write_text("".join(f"{package}=={version}\n" for package, version in versions.items()))
        self._run("--dry-run", "--report", str(report), "--constraint", str(constraints), requirement)
        resolved: Mapping[str, Any] = json.loads(report.read_text())
        return resolved

    def install(self, files: Iterable[_File]) -> None:
        """Install these files, and nothing else."""
        requirements = self._scratch / "requirements.txt"
        requirements.write_text("".join(f"{each.requirement} --hash=sha256:{each.sha256}\n" for each in files))
        self._run("--no-deps", "--require-hashes", "--requirement", str(requirements))

    def _run(self, *arguments: str) -> None:
        spec = importlib.util.find_spec("pip")
        if spec is None or spec.origin is None:
            raise LocalError("The worker's Python has no pip. Install it there: python -m ensurepip")
        command = [str(self._python), "-I", str(Path(guarded_pip.__file__)), str(Path(spec.origin).parent.parent)]
        command += ["--no-input", "--disable-pip-version-check", "install", "--only-binary", ":all:"]
        command += ["--no-warn-conflicts"]  # the constraints exclude them
        try:
            done = subprocess.run(
                [*command, *arguments],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_SECONDS,
                env={**without_ours(os.environ), "TMPDIR": str(self._scratch)},
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise LocalError(
                f"pip did not install {self._name} within {_SECONDS} s. Try again, or use a closer mirror"
            ) from error
        if done.returncode != 0:
            raise LocalError(f"pip could not install {self._name}: {_reason(done.stderr, done.stdout)}")


def _reason(text: str, output: str) -> str:
    """Return pip's errors, with the remedy if it is known. output: its other output, which has the reasons of
    conflicts.
    """
    log.info("pip: %s%s", output, text)
    _, _, conflict = output.partition("The conflict is caused by:\n")
    if conflict:
        lines = [line.strip() for line in conflict.partition("\n\n")[0].splitlines()]
        return (
            f"{'; '.join(lines)}. The platform's own packages keep their versions: use a version that is compatible "
            "with them"
        )
    lines = [line.removeprefix("ERROR:").strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if not line.startswith(("WARNING", "[notice]", "DEPRECATION"))]
    reason = " ".join(errors)[:_MOST_TOLD]
    if "from versions: none" in text or "No matching distribution" in text:
        return (
            f"{reason} Only wheels are installed: if a package has none for this Python, build one (pip wheel), and "
            "upload it or add it to your index (PIP_INDEX_URL)"
        )
    return reason


def parse_coordinates(text: str) -> Coordinate:
    """Parse `group:artifact:version`. Raises LocalError."""
    coordinates = text.strip()
    if not are_coordinates(coordinates):
        raise LocalError(f"{text!r} is not a Maven coordinate: {COORDINATES_RULE}")
    return Coordinate(*coordinates.split(":"))


def install_from_maven(plugin: Coordinate, folder: Path, mirror: str = "") -> Path:
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
    return install_from_maven(parse_coordinates(plugin), folder, mirror)


def install_file(file: Path, folder: Path) -> Path:
    """Install a .whl, .zip or .jar; return its own folder. Raises LocalError."""
    return install_wheel(file, folder) if is_wheel(file.name) else install_archive(file, folder)


def _describe(folder: Path) -> Mapping[str, object]:
    contents = read_contents(folder)
    return {"folder": str(contents.folder), "connectors": dict(contents.connectors), "files": dict(contents.files)}
