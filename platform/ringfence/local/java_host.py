"""The Java part that runs Kafka Connect's plugins, compiled by `make setup` and by the wheel's build.

The wheel contains the jar and no sources. A checkout whose sources have changed compiles them when they are first
needed. Only the standard library is used, since the build runs in its own environment: the compiler's class path is
downloaded here, and verified with the same checksums as Kafka Connect's jars.

`python -m ringfence.local.java_host` builds the jar of a checkout.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.request
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from ringfence.local.cache import cache_root
from ringfence.local.errors import LocalError
from ringfence.local.java import find_java

JAR: Final = "ringfence-connect-host.jar"
PACKAGED: Final = Path(__file__).resolve().parents[1] / "connectors" / "java" / JAR
"""Its place in a wheel, and in a checkout after `make setup`."""
SOURCES: Final = PACKAGED.with_name("host")
_DIGEST: Final = "META-INF/ringfence-sources.sha256"
_CHECKSUMS: Final = Path(__file__).with_name("kafka-connect-jars.sha256")
_NEEDED: Final[Mapping[str, str]] = {
    "connect-api": "org/apache/kafka",
    "connect-json": "org/apache/kafka",
    "connect-runtime": "org/apache/kafka",
    "kafka-clients": "org/apache/kafka",
    "jackson-annotations": "com/fasterxml/jackson/core",
    "jackson-core": "com/fasterxml/jackson/core",
    "jackson-databind": "com/fasterxml/jackson/core",
    "log4j-api": "org/apache/logging/log4j",
    "log4j-core": "org/apache/logging/log4j",
    "slf4j-api": "org/slf4j",
    "maven-artifact": "org/apache/maven",
}
"""By artifact, its group's folder: the artifacts of the sources and of the signatures that they use."""
_ECJ: Final = ("org/eclipse/jdt", "ecj-3.40.0.jar", "05cc22a24e7982970f63a405fc6c820bc80b806f27f3c5a6236fc475f8f7152b")
_NAME: Final = re.compile(r"(.+)-(\d[^-]*)\.jar")
_RELEASE: Final = "17"
_COMPILE_SECONDS: Final = 300


def digest_of_sources() -> str:
    """Return the digest of the sources; in a wheel, which has none, that of the sources of its jar."""
    sources = sorted(SOURCES.glob("*"))
    if not sources:
        return digest_of(PACKAGED)
    return hashlib.sha256(b"".join(each.name.encode() + each.read_bytes() for each in sources)).hexdigest()


def digest_of(jar: Path) -> str:
    """Return the digest of the jar's sources; "" if the jar is missing."""
    try:
        with zipfile.ZipFile(jar) as archive:
            return archive.read(_DIGEST).decode()
    except (OSError, KeyError, zipfile.BadZipFile):
        return ""


def make(folder: Path, cache: Path) -> Path:
    """Return the jar, in `folder`: the packaged one if it is up to date, else compiled. cache: where downloads are
    stored.

    Raises LocalError.
    """
    target = folder / JAR
    if digest_of(PACKAGED) == digest_of_sources() != "":
        shutil.copyfile(PACKAGED, target)
        return target
    if not SOURCES.is_dir():
        raise LocalError(f"{PACKAGED} is missing: this installation of Ringfence is damaged. Reinstall it")
    with tempfile.TemporaryDirectory(prefix="ringfence-java-") as scratch:
        _compile(Path(scratch), list(_class_path(cache)), compiler(cache))
        _pack(Path(scratch), target)
    return target


def compiler(cache: Path) -> list[str]:
    """Return javac beside the running Java, or on the PATH; else Eclipse's compiler, which only needs a
    Java runtime.
    """
    beside = find_java().resolve().with_name("javac")
    javac = str(beside) if beside.exists() else shutil.which("javac")
    if javac:
        return [javac]
    return [str(find_java()), "-jar", str(_fetch(cache, *_ECJ)), "-proc:none"]


def _compile(classes: Path, class_path: list[Path], command: list[str]) -> None:
    java = [str(each) for each in sorted(SOURCES.glob("*.java"))]
    # Eclipse's compiler does not support wildcards in a class path.
    options = ["-nowarn", "--release", _RELEASE, "-d", str(classes), "-cp", ":".join(map(str, class_path))]
    answer = subprocess.run(
        [*command, *options, *java], capture_output=True, text=True, timeout=_COMPILE_SECONDS, check=False
    )
    if answer.returncode != 0:
        raise LocalError(f"The Java part cannot be compiled: {(answer.stdout + answer.stderr)[:2000]}")
    for each in SOURCES.iterdir():
        if each.suffix != ".java":
            shutil.copy(each, classes)
    (classes / _DIGEST).parent.mkdir()
    (classes / _DIGEST).write_text(digest_of_sources())


def _pack(classes: Path, jar: Path) -> None:
    """Write the jar. The same classes give the same bytes; the file appears only complete."""
    scratch = jar.with_suffix(f".{os.getpid()}")
    with zipfile.ZipFile(scratch, "w", zipfile.ZIP_DEFLATED) as archive:
        for each in sorted(classes.rglob("*")):
            if each.is_file():
                entry = zipfile.ZipInfo(str(each.relative_to(classes)), (1980, 1, 1, 0, 0, 0))
                entry.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(entry, each.read_bytes())
    scratch.rename(jar)


def _class_path(cache: Path) -> Iterator[Path]:
    for line in _CHECKSUMS.read_text().splitlines():
        digest, name = line.split()
        match = _NAME.fullmatch(name)
        if match is not None and match[1] in _NEEDED:
            yield _fetch(cache, _NEEDED[match[1]], name, digest)


def _fetch(cache: Path, group: str, name: str, digest: str) -> Path:
    """Return the jar with this digest: a stored one, else from Maven Central or RINGFENCE_MAVEN_URL."""
    jar = cache / "jars" / "java-host-build" / name
    for place in (jar, *sorted((cache / "jars").glob(f"*/{name}"))):
        if place.is_file() and hashlib.sha256(place.read_bytes()).hexdigest() == digest:
            return place
    match = _NAME.fullmatch(name)
    assert match is not None
    base = (os.environ.get("RINGFENCE_MAVEN_URL") or "https://repo1.maven.org/maven2/").rstrip("/")
    url = f"{base}/{group}/{match[1]}/{match[2]}/{name}"
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:  # noqa: S310 - the user at the terminal sets the mirror
            data: bytes = answer.read()
    except OSError as error:
        raise LocalError(
            f"Could not fetch {url} ({error}): check the network, or set RINGFENCE_MAVEN_URL to a mirror of Maven "
            "Central"
        ) from error
    if hashlib.sha256(data).hexdigest() != digest:
        raise LocalError(f"{url} is not the file of this release: check RINGFENCE_MAVEN_URL")
    jar.parent.mkdir(parents=True, exist_ok=True)
    scratch = jar.with_suffix(f".{os.getpid()}")
    scratch.write_bytes(data)
    scratch.rename(jar)
    return jar


if __name__ == "__main__":
    try:
        print(make(PACKAGED.parent, cache_root()) if digest_of(PACKAGED) != digest_of_sources() else PACKAGED)
    except LocalError as trouble:
        sys.exit(f"{trouble}. Java connectors are compiled on first use instead")
