"""Starts JVMs seconds faster, with archives of their parsed classes (JVM class data sharing)."""

import hashlib
import tempfile
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock

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
    return (f"-XX:SharedArchiveFile={archive}", *_QUIET) if usable else ()


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
