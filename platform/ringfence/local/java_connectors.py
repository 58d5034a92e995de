"""What Java connectors need on this machine: Kafka Connect's jars, and the host's jar, compiled where there is none.

The wheel and the repository carry the host's Java sources. They are compiled once for each release, by the machine's
javac, or by Eclipse's compiler, which needs a Java runtime only.
"""

import hashlib
import shlex
import shutil
import subprocess
import time
import zipfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

from ringfence.connectors.java.process import JavaProcess
from ringfence.connectors.java.runtime import DEFAULT_OPTIONS, JAVA_OPTIONS, PLUGIN_PATH, JavaRuntime, converters_of
from ringfence.local import cds_archive
from ringfence.local.errors import LocalError
from ringfence.local.jars import KAFKA_CONNECT, Coordinate, once, resolve
from ringfence.local.java import find_java

SOURCES: Final = Path(__file__).resolve().parents[1] / "connectors" / "java" / "host"
_ECJ: Final = (Coordinate("org.eclipse.jdt", "ecj", "3.40.0"),)
_JAR: Final = "ringfence-connect-host.jar"
_COMPILE_SECONDS: Final = 300
_TRAIN_SECONDS: Final = 60
_RELEASE: Final = "17"


def java_runtime(settings: Mapping[str, str]) -> JavaRuntime | None:
    """None where the worker's settings name no `plugin.path`. The first call on a machine downloads and compiles.

    Raises LocalError.
    """
    path = settings.get(PLUGIN_PATH, "").strip()
    if not path:
        return None
    missing = [each for entry in path.split(",") if (each := entry.strip()) and not Path(each).is_absolute()]
    if missing:
        raise LocalError(f"{PLUGIN_PATH} names {missing[0]}, which is not an absolute path")
    jars = resolve("kafka-connect", KAFKA_CONNECT)
    host = build_host()
    options = tuple(shlex.split(settings.get(JAVA_OPTIONS, DEFAULT_OPTIONS)))
    # In one order: an archive of classes fits the very class path that it was made with.
    class_path = ":".join(map(str, [host / _JAR, *sorted(jars.glob("*.jar"))]))
    warm = cds_archive.jvm_options(host, lambda _scratch, more: _train(class_path, more))
    return JavaRuntime(str(find_java()), class_path, path, (*warm, *options), converters_of(settings))


def _train(class_path: str, options: tuple[str, ...]) -> None:
    """Run the host once to a clean end."""
    runtime = JavaRuntime(str(find_java()), class_path, "", options)
    process = JavaProcess(runtime, lambda _connector: None)
    process.send("warm")
    deadline = time.monotonic() + _TRAIN_SECONDS
    while process.ended is None and time.monotonic() < deadline:
        time.sleep(0.1)
    process.close(1.0)


@cache
def build_host() -> Path:
    """The folder that holds the host's jar."""
    sources = sorted(SOURCES.glob("*"))
    digest = hashlib.sha256(b"".join(each.name.encode() + each.read_bytes() for each in sources)).hexdigest()[:10]
    jars = resolve("kafka-connect", KAFKA_CONNECT)  # not in `make`: the lock is one for all names
    class_path = ":".join(map(str, sorted(jars.glob("*.jar"))))  # Eclipse's compiler knows no wildcard
    compiler = _compiler()

    def make(scratch: Path) -> Path:
        classes, made = scratch / "classes", scratch / "made"
        classes.mkdir()
        made.mkdir()
        java = [str(each) for each in sources if each.suffix == ".java"]
        command = [*compiler, "-nowarn", "--release", _RELEASE, "-d", str(classes), "-cp", class_path, *java]
        answer = subprocess.run(command, capture_output=True, text=True, timeout=_COMPILE_SECONDS, check=False)
        if answer.returncode != 0:
            raise LocalError(f"The Java part cannot be compiled: {(answer.stdout + answer.stderr)[:2000]}")
        for each in sources:
            if each.suffix != ".java":
                shutil.copy(each, classes)
        _pack(classes, made / _JAR)
        return made

    return once(f"java-host-{digest}", make)


def _compiler() -> list[str]:
    """javac beside the Java that runs, or on the PATH; else Eclipse's."""
    beside = find_java().resolve().with_name("javac")
    javac = str(beside) if beside.exists() else shutil.which("javac")
    if javac:
        return [javac]
    (ecj,) = resolve("ecj", _ECJ).glob("ecj-*.jar")
    return [str(find_java()), "-jar", str(ecj), "-proc:none"]


def _pack(classes: Path, jar: Path) -> None:
    """The same bytes of the same classes."""
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED) as archive:
        for each in sorted(classes.rglob("*")):
            if each.is_file():
                entry = zipfile.ZipInfo(str(each.relative_to(classes)), (1980, 1, 1, 0, 0, 0))
                entry.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(entry, each.read_bytes())
