"""Installs a Python plugin in its own environment, a folder of `plugin.path`: whole, or not at all.

pip first resolves it, then installs exactly those files, by their SHA-256: wheels only, each from the worker's index,
so that no code of a package runs during the installation (`guarded_pip`). The platform's own packages are not installed
again, and keep their versions: the processes that run the plugin load them.
"""

import importlib.util
import json
import logging
import os
import re
import subprocess
import venv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from ringfence.connectors.plugin_environments import GROUP, open_environment
from ringfence.connectors.plugin_names import FILE_RULE, PACKAGE_RULE, is_file_name, is_package
from ringfence.engine.spark.connector_limits import without_ours
from ringfence.local import guarded_pip
from ringfence.local.errors import LocalError
from ringfence.local.plugin_folders import FILES, digest, put_in_place, read_files, scratch_beside

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
        (info / "METADATA").write_text(_describe(each))
    (packages / _PTH).write_text(f"{folder}\n")
    return {name: each.version for name, each in distributions.items()}


def _describe(own: Distribution) -> str:
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
