"""Downloads Java libraries from Maven Central, once, with the Ivy in PySpark: Maven is not needed."""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from xml.sax.saxutils import quoteattr

from filelock import FileLock

from ringfence.local.cache import cache_root
from ringfence.local.errors import LocalError
from ringfence.local.java import find_java

KAFKA_VERSION = "4.3.0"
MAVEN_CENTRAL = "https://repo1.maven.org/maven2/"

_RESOLVE_SECONDS = 900


@dataclass(frozen=True, slots=True, order=True)
class Coordinate:
    """One Maven artifact, which includes its dependencies."""

    group: str
    artifact: str
    version: str


KAFKA_SERVER = (
    Coordinate("org.apache.kafka", "kafka_2.13", KAFKA_VERSION),
    # Kafka uses slf4j 1.7 and includes log4j without the binding between the two: without it, nothing is logged.
    Coordinate("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4"),
)
KAFKA_CONNECT = (
    Coordinate("org.apache.kafka", "connect-runtime", KAFKA_VERSION),
    Coordinate("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4"),
)
"""Runs Java connectors; contains none itself."""


KAFKA_MEGABYTES = 44
"""The jars of `KAFKA_SERVER` and its dependencies."""


def _checksums(name: str) -> Path:
    return Path(__file__).with_name(f"{name}-jars.sha256")


_CHECKED: dict[tuple[Coordinate, ...], Path] = {
    KAFKA_SERVER: _checksums("kafka"),
    KAFKA_CONNECT: _checksums("kafka-connect"),
}
"""Of every file in these: `python -m ringfence.local.jars --list [connect]` prints it, for a new version."""

FLIGHTS_FILE = "flights.csv"
"""The demo's input, in the cache."""


def resolve(name: str, coordinates: Sequence[Coordinate], mirror: str = "") -> Path:
    """Return a directory with the jars of `coordinates` and of all their dependencies.

    The first call downloads (tens of seconds), later ones return at once. Safe to call from several processes: one
    downloads, the others wait for it. The directory is complete or missing, never partial.

    name: for users who look into the cache. mirror: of Maven Central; default: RINGFENCE_MAVEN_URL.
    """
    dependencies = "\n".join(
        f"    <dependency org={quoteattr(c.group)} name={quoteattr(c.artifact)} rev={quoteattr(c.version)}"
        ' conf="default->default"/>'
        for c in coordinates
    )
    names = ", ".join(f"{c.group}:{c.artifact}:{c.version}" for c in coordinates)

    def make(scratch: Path) -> Path:
        folder = retrieve(scratch, dependencies, names, ivy_cache=cache_root() / "ivy", mirror=mirror)
        if (checksums := _CHECKED.get(tuple(coordinates))) is not None:
            check(folder, checksums.read_text())
        return folder

    return once(_folder_name(name, coordinates), make)


def is_kept(name: str, coordinates: Sequence[Coordinate]) -> bool:
    """Return whether `resolve` has nothing to download."""
    return folder_of(_folder_name(name, coordinates)).is_dir()


def list_checked(name: str, coordinates: tuple[Coordinate, ...]) -> list[Path]:
    """Return, sorted, the files that `resolve` makes of coordinates with checksums. It need not have run yet."""
    folder = folder_of(_folder_name(name, coordinates))
    return sorted(folder / line.split()[1] for line in _CHECKED[coordinates].read_text().splitlines())


def folder_of(name: str) -> Path:
    """Return the directory that `once` makes."""
    return cache_root() / "jars" / name


def _folder_name(name: str, coordinates: Sequence[Coordinate]) -> str:
    return f"{name}-{hashlib.sha256(repr(sorted(coordinates)).encode()).hexdigest()[:10]}"


def check(folder: Path, checksums: str) -> None:
    """Compare each file with a list in the form of `sha256sum`. Raises LocalError for a file that differs or is not
    listed.

    Ivy compares with checksums from the same server as the files, which detects damage, but not a malicious server.
    """
    expected = {name: digest for line in checksums.splitlines() for digest, name in [line.split()]}
    actual = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.iterdir()}
    if actual != expected:
        wrong = sorted(name for name in actual.keys() | expected.keys() if actual.get(name) != expected.get(name))
        raise LocalError(
            f"The downloaded files are not those of this release ({', '.join(wrong[:3])}): none of them is used. "
            "Check RINGFENCE_MAVEN_URL and any proxy between this machine and Maven Central"
        )


def once(name: str, make: Callable[[Path], Path]) -> Path:
    """Return the directory `name` among the stored jars. The first caller creates it; others wait for it.

    make: gets a scratch directory, and returns the directory inside it that is stored.
    """
    root, target = cache_root(), folder_of(name)
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    # One lock for all names: they share Ivy's own cache, which is not safe for two processes.
    with FileLock(root / "jars.lock"):
        if not target.is_dir():
            scratch = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=target.parent))
            try:
                make(scratch).rename(target)
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
    return target


def retrieve(
    scratch: Path, dependencies: str, names: str, *, ivy_cache: Path, poms: bool = True, mirror: str = ""
) -> Path:
    """Return a directory in `scratch` with the files of these `<dependency>` elements. Ivy verifies their checksums.

    names: their names for errors. poms: if False, dependencies of the named artifacts are not included.
    """
    settings, module = scratch / "ivysettings.xml", scratch / "ivy.xml"
    settings.write_text(_settings(mirror or os.environ.get("RINGFENCE_MAVEN_URL") or MAVEN_CENTRAL, poms))
    module.write_text(_module(dependencies))
    command = [
        str(find_java()),
        "-cp",
        str(files("pyspark") / "jars" / "*"),
        "org.apache.ivy.Main",
        "-settings",
        str(settings),
        "-ivy",
        str(module),
        "-cache",
        str(ivy_cache),
        "-retrieve",
        str(scratch / "jars" / "[artifact]-[revision](-[classifier]).[ext]"),
    ]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=_RESOLVE_SECONDS, check=False)
    if answer.returncode != 0 or not (scratch / "jars").is_dir():
        raise LocalError(
            f"Could not fetch {names} ({_complaint(answer.stdout + answer.stderr)}): "
            "check the network, or set RINGFENCE_MAVEN_URL to a mirror of Maven Central"
        )
    return scratch / "jars"


def _complaint(output: str) -> str:
    """Return the most informative line of Ivy's output."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    marks = ("unresolved dependency", "not found", "error", "exception")
    return next((line for mark in marks for line in lines if mark in line.lower()), lines[-1] if lines else "no output")


def _settings(repository: str, poms: bool) -> str:
    options = "" if poms else ' usepoms="false" useMavenMetadata="false"'
    return f"""<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true"{options} root={quoteattr(repository)}/></resolvers>
</ivysettings>
"""


def _module(dependencies: str) -> str:
    return f"""<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="ringfence" module="local"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
{dependencies}
  </dependencies>
</ivy-module>
"""


def _find_digest(folder: Path) -> str:
    return "".join(
        f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in sorted(folder.iterdir())
    )


if __name__ == "__main__":
    wanted_jars = ("kafka-connect", KAFKA_CONNECT) if "connect" in sys.argv else ("kafka", KAFKA_SERVER)
    jars = resolve(*wanted_jars)
    print(_find_digest(jars) if "--list" in sys.argv else jars, end="" if "--list" in sys.argv else "\n")
