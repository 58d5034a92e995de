"""Starts a JVM with our host in it: the command line, the environment, and what it sees of `plugin.path`."""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from ringfence.connectors.api import ConnectorError
from ringfence.connectors.java.runtime import JavaRuntime
from ringfence.connectors.process_tree import MARK
from ringfence.connectors.sdk import worker_limits
from ringfence.connectors.sdk.guarded_connects import exec_guarded, run_guarded

# -Xrs: Java installs no signal handlers; -Xshare:auto: a class archive that does not match is ignored. The JVM's own
# messages go to standard error, because standard output carries frames. automatic.config.providers: Kafka's clients in
# a connector would otherwise read files for whoever may configure it, with ${…} and a provider that it names itself.
_OPTIONS: Final = (
    "-Xrs",
    "-XX:+UseSerialGC",
    "-XX:+ExitOnOutOfMemoryError",
    "-Xshare:auto",
    "-Djava.awt.headless=true",
    "-Dorg.apache.kafka.automatic.config.providers=none",
    "-XX:+DisplayVMOutputToStderr",
    "-Xlog:disable",
    "-Xlog:all=warning,cds=off,cds+dynamic=off:stderr",
    "-Dlog4j2.configurationFile=classpath:log4j2-ringfence.xml",
)
_ARCHIVE: Final = "-XX:SharedArchiveFile="
_PYTHON: Final = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
_HANDED_ON: Final = ("PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "JAVA_HOME", "SSL_CERT_FILE")


def start_jvm(
    runtime: JavaRuntime,
    options: Sequence[str],
    main: str,
    arguments: Sequence[str],
    folder: str,
    *,
    stdin: int,
    stdout: int | IO[bytes],
    stderr: int | IO[bytes],
    names: Path | None = None,
) -> subprocess.Popen[bytes]:
    """Start a JVM in a session of its own, so that Ctrl-C reaches the worker only, which lets its tasks commit. It
    connects to addresses of `egress.allow` only (`guarded_connects`).

    options: of this JVM, before those of the runtime's settings; main, arguments: its class and command line; folder:
    an empty working and home directory, so that plugins find no worker's files; stdin, stdout, stderr: as in
    `subprocess.Popen`; names: for a JVM that outlives this process, a file as in `guarded_connects.exec_guarded`.
    """
    options = [each for each in options if _is_usable(each)]
    command = [runtime.java, *_OPTIONS, f"-Duser.home={folder}", *options, "-cp", runtime.class_path, main, *arguments]
    environment = {**{name: os.environ[name] for name in _HANDED_ON if name in os.environ}, "HOME": folder}
    if names is not None:
        limits = {worker_limits.ENVIRONMENT: json.dumps(worker_limits.current().as_settings())}
        marks = {name: os.environ[name] for name in (MARK, *_PYTHON) if name in os.environ}
        start = [sys.executable, "-m", __name__, json.dumps([*environment]), str(names)]
        command, environment = [*start, *command], {**environment, **limits, **marks}

    def start_process() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            cwd=folder,
            env=environment,
            start_new_session=True,
        )

    with _no_memory_limit():
        return start_process() if names is not None else run_guarded(start_process)


def require_jars(runtime: JavaRuntime) -> None:
    """Raise `ConnectorError` for a missing folder of the class path: each appears whole, or not at all."""
    folders = {os.path.dirname(jar) for jar in runtime.class_path.split(":")}
    missing = sorted(folder for folder in folders if not os.path.isdir(folder))
    if missing:
        raise ConnectorError(
            f"Java connectors need {missing[0]}, which is missing. The worker fetches it: try again in a minute. On a "
            "Spark cluster, copy it to each executor"
        )


def _is_usable(option: str) -> bool:
    """Return whether a JVM starts as well with this option: one for an archive that was not made slows it down."""
    if not option.startswith(_ARCHIVE):
        return True
    try:
        return os.path.getsize(option.removeprefix(_ARCHIVE)) > 0
    except OSError:
        return False


def link_plugins(runtime: JavaRuntime, folder: str) -> str:
    """Return the worker's plugin.path, or the empty folder `folder`, filled with links to the runtime's places."""
    if not runtime.places:
        return runtime.plugin_path
    for number, place in enumerate(runtime.places):  # two folders of the path may contain the same name
        os.symlink(place, os.path.join(folder, f"{number}-{Path(place).name}"))
    return folder


@contextmanager
def _no_memory_limit() -> Iterator[None]:
    """Lift the task's memory limit: a JVM has its heap limit instead."""
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


if __name__ == "__main__":  # of a JVM that outlives the process which starts it
    variables, names, *rest = sys.argv[1:]
    exec_guarded(rest, {name: os.environ[name] for name in json.loads(variables)}, Path(names))
