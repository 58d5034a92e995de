"""A real Schema Registry for tests: Apicurio Registry, which speaks the REST API of Confluent's, on a free port.

It comes from Maven Central once (105 MB), and keeps what it is told in a file, so that it can be stopped and started.
"""

import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import requests

from ringfence.local import class_archives
from ringfence.local.errors import LocalError
from ringfence.local.guarded_process import GuardedProcess, wait_until
from ringfence.local.jars import once
from ringfence.local.java import find_java
from ringfence.local.ports import free_port
from tests.support.archives import fetch_archive

# The last one for Java 17.
_VERSION = "3.0.9"
_SHA256 = "2b28181501a20cbf6efcd77f9b7153908fc01f3d3a7c32024c0bd9e1b04c8a43"
_DEPENDENCY = f"""\
    <dependency org="io.apicurio" name="apicurio-registry-app" rev="{_VERSION}" transitive="false" conf="default->*">
      <artifact name="apicurio-registry-app" type="tar.gz" ext="tar.gz" m:classifier="all"/>
    </dependency>"""
_JVM = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_READY_SECONDS = 180.0
Json = Any


class Apicurio:
    """One registry on 127.0.0.1 with what it keeps under `root`. It ends with this process, however that ends."""

    def __init__(self, root: Path, *, jvm_options: tuple[str, ...] = ()) -> None:
        """`jvm_options` replace the archive of a warm start."""
        self._root = root
        self._port = free_port()
        self._jvm_options = jvm_options
        self._process: GuardedProcess | None = None
        self.url = f"http://127.0.0.1:{self._port}/apis/ccompat/v7"
        self.own_api = f"http://127.0.0.1:{self._port}/apis/registry/v2"

    def start(self) -> None:
        """Return when it answers; after `stop` with the same port and all that was registered.

        Raises LocalError where it cannot be fetched, or does not answer in time.
        """
        home = once(f"apicurio-registry-app-{_VERSION}", _unpacked)
        warm = self._jvm_options or class_archives.jvm_options(home, _train)
        settings = {
            "quarkus.http.host": "127.0.0.1",
            "quarkus.http.port": str(self._port),
            "quarkus.http.access-log.enabled": "false",
            "quarkus.banner.enabled": "false",
            'quarkus.log.category."io.apicurio".level': "WARN",
            "apicurio.datasource.url": f"jdbc:h2:file:{self._root / 'kept'}",
        }
        command = [str(find_java()), *_JVM, *warm, *(f"-D{name}={value}" for name, value in settings.items())]
        log = self._root / "registry.log"
        self._root.mkdir(parents=True, exist_ok=True)
        self._process = process = GuardedProcess.start(
            "the registry", [*command, "-jar", str(home / f"apicurio-registry-app-{_VERSION}-runner.jar")], log=log
        )
        wait_until(lambda: self._answers() or process.poll() is not None, _READY_SECONDS, pause=0.05)
        if not self._answers():
            self.kill()
            raise LocalError(f"Apicurio Registry did not answer within {_READY_SECONDS:.0f} s: see {log}")

    def stop(self) -> None:
        """A clean end."""
        if self._process is not None:
            self._process.stop(grace=30)

    def kill(self) -> None:
        """SIGKILL; returns when the process is gone."""
        if self._process is not None:
            self._process.kill()

    def get(self, path: str) -> Json:
        """An answer of its own REST API."""
        answer = requests.get(f"{self.url}/{path}", timeout=30)
        answer.raise_for_status()
        return answer.json()

    def compatible(self, subject: str, level: str) -> None:
        """Versions of that subject are to be compatible from now on, such as BACKWARD."""
        answer = requests.put(f"{self.url}/config/{subject}", json={"compatibility": level}, timeout=30)
        answer.raise_for_status()

    def register_avro(self, subject: str, text: str) -> None:
        """By Apicurio's own API. Its form of Confluent's answers 422 to a new schema in which a string has the default
        `{}`: it does not take that for Avro, although the request says so. One that is there it finds."""
        answer = requests.post(
            f"{self.own_api}/groups/default/artifacts",
            data=text.encode(),
            headers={
                "Content-Type": "application/json",
                "X-Registry-ArtifactType": "AVRO",
                "X-Registry-ArtifactId": subject,
            },
            timeout=30,
        )
        answer.raise_for_status()

    def _answers(self) -> bool:
        try:
            return requests.get(f"{self.url}/subjects", timeout=5).ok
        except requests.RequestException:
            return False


def _unpacked(scratch: Path) -> Path:
    wanted = f"io.apicurio:apicurio-registry-app:{_VERSION}:all"
    # The parent of its POM is not on Maven Central.
    with tarfile.open(fetch_archive(scratch, _DEPENDENCY, wanted, _SHA256)) as packed:
        packed.extractall(scratch / "home", filter="data")
    return scratch / "home"


def _train(scratch: Path, options: tuple[str, ...]) -> None:
    registry = Apicurio(scratch / "registry", jvm_options=options)
    registry.start()
    registry.stop()


@contextmanager
def running_registry(root: Path) -> Iterator[Apicurio]:
    registry = Apicurio(root)
    try:
        registry.start()
        yield registry
    finally:
        registry.kill()
