"""Starts JVMs with half the CPU time: archives keep their classes, parsed once (JVM class data sharing).

`make setup` and the image's build make the archive of Spark's driver: `python -m ringfence.local.class_archives`.
Without one, or with one that does not fit, the driver starts as usual. Measured for a worker's driver: 1.9 s of CPU
time instead of 3.9, and 225 MiB instead of 280.
"""

import hashlib
import os
import shlex
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from filelock import FileLock

from ringfence.local.cache import cache_root
from ringfence.local.errors import LocalError
from ringfence.local.java import java_path

_QUIET = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")


def jvm_options(jars: Path, train: Callable[[Path, tuple[str, ...]], None], recipe: str = "") -> tuple[str, ...]:
    """Return JVM options that use the archive for `jars`. The first call on a machine creates it, in about eight
    seconds.

    train(scratch directory, options): runs the JVM once to a clean end. recipe: another one makes another archive.
    An archive is only an optimisation: if it cannot be created, the result is empty, and it is not tried again for this
    Java.
    """
    archive = _path(jars, recipe)
    if not archive.exists():
        archive.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{archive}.lock"):
            if not archive.exists():
                _make(archive, train)
    return made_options(jars, recipe)


def made_options(jars: Path, recipe: str = "") -> tuple[str, ...]:
    """Options that use the archive for `jars` if it was made; empty if it was not."""
    archive = _path(jars, recipe)
    usable = archive.exists() and archive.stat().st_size > 0
    return _use(archive) if usable else ()


def future_options(jars: Path) -> tuple[str, ...]:
    """Options that use the archive for `jars` once it is made: who starts a JVM checks the file first."""
    return _use(_path(jars, ""))


def _use(archive: Path) -> tuple[str, ...]:
    return (f"-XX:SharedArchiveFile={archive}", *_QUIET)


def _path(jars: Path, recipe: str) -> Path:
    # An archive fits only one build of one Java; the JVM would ignore another, and log that on each start. The time of
    # a file in an image's layer is in full seconds.
    java = java_path().resolve()
    build = f"{java} {int(java.stat().st_mtime)} {java.stat().st_size}{recipe and f' {recipe}'}"
    return jars.with_name(f"{jars.name}-{hashlib.sha256(build.encode()).hexdigest()[:10]}.jsa")


def _make(archive: Path, train: Callable[[Path, tuple[str, ...]], None]) -> None:
    with tempfile.TemporaryDirectory(prefix=".train-", dir=archive.parent) as scratch:
        new_archive = Path(scratch) / "classes.jsa"
        try:
            train(Path(scratch), (f"-XX:ArchiveClassesAtExit={new_archive}", *_QUIET))
        except LocalError:
            pass  # the real start, which follows, reports the error
        else:
            if not new_archive.exists():
                new_archive.touch()
            new_archive.rename(archive)


OPTIONS: Final = "SPARK_SUBMIT_OPTS"
"""Spark's own variable: options of the driver's JVM, read by `spark-submit`, which PySpark runs."""


def use_archive() -> None:
    """Let the Spark drivers that this process and its children start use the archive, if there is one.

    Leaves SPARK_SUBMIT_OPTS as it is where it is set.
    """
    try:
        options = made_options(_archive_of_installed_spark())
    except LocalError:
        return  # no Java: Spark's start says so
    if options:
        os.environ.setdefault(OPTIONS, shlex.join(options))


def make_archive() -> bool:
    """Make the archive unless it is there, in about ten seconds; return whether there is one. Raises LocalError."""
    return bool(jvm_options(_archive_of_installed_spark(), _train))


def _archive_of_installed_spark() -> Path:
    """The start of the archive's name: an archive fits one class path, with the very files that it was made of."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise LocalError("PySpark is not installed")
    jars = Path(spec.origin).parent / "jars"
    changed_s = int(jars.stat().st_mtime)  # the layers of an image keep no fractions of seconds
    digest = hashlib.sha256(f"{jars} {changed_s}".encode()).hexdigest()[:10]
    return cache_root() / f"spark-{digest}"


def _train(_scratch: Path, options: tuple[str, ...]) -> None:
    """Run a driver with an empty job, as a worker does, and wait for the clean end of its JVM."""
    from ringfence.engine.spark.driver import SparkHost

    os.environ[OPTIONS] = shlex.join(options)
    try:
        host = SparkHost(1)
        host.warm()
        host.end_driver()
    finally:
        del os.environ[OPTIONS]


if __name__ == "__main__":
    make_archive()
