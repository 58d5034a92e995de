"""What Java connectors need on this machine: Kafka Connect's jars, and the host's jar (`java_host`)."""

import shlex
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

from ringfence.connectors.java.processes import JavaProcess
from ringfence.connectors.java.runtime import (
    DEFAULT_OPTIONS,
    DEFAULT_SHARED_OPTIONS,
    JAVA_OPTIONS,
    PLUGIN_PATH,
    SHARED_OPTIONS,
    JavaRuntime,
    converters_of,
)
from ringfence.local import class_archives, java_host
from ringfence.local.cache import cache_root
from ringfence.local.errors import LocalError
from ringfence.local.jars import KAFKA_CONNECT, folder_of, list_checked, once, resolve
from ringfence.local.java import find_java, java_path

_TRAIN_SECONDS: Final = 60


def java_runtime(settings: Mapping[str, str]) -> JavaRuntime | None:
    """Return what runs Java connectors, ready for use; None without `plugin.path` in the worker's settings. The first
    call downloads.

    Raises LocalError.
    """
    runtime = describe_runtime(settings)
    if runtime is not None:
        prepare()
    return runtime


def describe_runtime(settings: Mapping[str, str]) -> JavaRuntime | None:
    """Return the same before `prepare` has fetched and compiled what it names. Raises LocalError."""
    path = settings.get(PLUGIN_PATH, "").strip()
    if not path:
        return None
    missing = [each for entry in path.split(",") if (each := entry.strip()) and not Path(each).is_absolute()]
    if missing:
        raise LocalError(f"{PLUGIN_PATH} names {missing[0]}, which is not an absolute path")
    options = shlex.split(settings.get(JAVA_OPTIONS, DEFAULT_OPTIONS))
    shared_options = shlex.split(settings.get(SHARED_OPTIONS, DEFAULT_SHARED_OPTIONS))
    # An archive that was not made is left out when a JVM starts.
    warm = class_archives.future_options(_host_folder())
    return JavaRuntime(
        str(java_path()), _class_path(), path, (*warm, *options), (*warm, *shared_options), converters_of(settings)
    )


def prepare(mirror: str = "") -> None:
    """Fetch Kafka Connect's jars, compile the host's, and make the archive of their classes, where that is not done.

    It takes seconds to minutes, once on a machine. mirror: of Maven Central, as in `jars.resolve`. Raises LocalError.
    """
    find_java()
    resolve("kafka-connect", KAFKA_CONNECT, mirror)
    class_archives.jvm_options(build_host(), lambda _scratch, more: _train(_class_path(), more))


def _class_path() -> str:
    """Always in the same order: an archive of classes fits only the class path that it was created with."""
    return ":".join(map(str, [_host_folder() / java_host.JAR, *list_checked("kafka-connect", KAFKA_CONNECT)]))


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
    """Return the folder with the host's jar: always the same one, which the archive of classes is created for."""

    def make(scratch: Path) -> Path:
        folder = scratch / "made"
        folder.mkdir()
        java_host.make(folder, cache_root())
        return folder

    return once(_host_name(), make)


def _host_folder() -> Path:
    return folder_of(_host_name())


@cache
def _host_name() -> str:
    return f"java-host-{java_host.digest_of_sources()[:10]}"
