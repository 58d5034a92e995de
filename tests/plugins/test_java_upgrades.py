"""A Java plugin that is installed in another version while its connector runs. A real JVM, no Kafka."""

import json
import shutil
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ringfence.connectors.java import runtime
from ringfence.engine.leader.connector_instances import LeaderInstances
from ringfence.engine.plugins import PluginHost
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.topics.connector_state import ConnectorState
from ringfence.local.jars import resolve
from tests.support.java_plugins import FILE_STREAM, FILE_STREAM_CLASS, runtime_of
from tests.support.no_offsets import NoOffsets
from tests.support.plugin_hosts import PATIENCE
from tests.support.waiting import eventually

A, B = ConnectorName("a"), ConnectorName("b")


def install(folder: Path, version: str) -> None:
    """Kafka's own jar under another version's name: whole, in one step."""
    jar = next(resolve(FILE_STREAM.artifact, [FILE_STREAM]).glob("connect-file-*.jar"))
    made = folder.parent / f"made-{version}"
    made.mkdir()
    with (
        zipfile.ZipFile(jar) as given,
        zipfile.ZipFile(made / f"connect-file-{version}.jar", "w") as copy,
    ):
        for name in given.namelist():
            if name != "META-INF/MANIFEST.MF":
                copy.writestr(name, given.read(name))
    made.rename(folder / version)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "plugins"
    path.mkdir()
    install(path, "1.0.0")
    return path


@pytest.fixture
def host(folder: Path) -> Iterator[PluginHost]:
    java = runtime_of(folder, java_options="-Xmx64m")
    host = PluginHost(environment={runtime.ENVIRONMENT: json.dumps(java.as_settings())}, call_seconds=PATIENCE)
    yield host
    host.close()


def config_of(name: str, **more: str) -> dict[str, str]:
    named = {key.replace("_", "."): value for key, value in more.items()}
    return {"name": name, "connector.class": FILE_STREAM_CLASS, "topic": "t", **named}


def test_a_version_that_is_installed_beside_the_one_that_runs_is_told_once(host: PluginHost, folder: Path) -> None:
    told: list[tuple[str, str]] = []
    instances = LeaderInstances(host, NoOffsets(), lambda: None, lambda *text: told.append(text))  # type: ignore[arg-type]
    instances.make(A, config_of("a"), None)
    instances.make(B, config_of("b", connector_plugin_version="1.0.0"), None)
    now = time.monotonic()
    instances.look_for_upgrades(now)
    assert told == []

    install(folder, "2.0.0")
    look(instances, now + 20)
    wanted = f"{FILE_STREAM_CLASS} 2.0.0 is installed, 1.0.0 runs. Restart the connector with its tasks to run 2.0.0"
    assert told == [(A, wanted)], "b asks for 1.0.0"
    install(folder, "1.5.0")
    look(instances, now + 40)
    assert told == [(A, wanted)]

    instances.make(ConnectorName("c"), config_of("c"), None)
    assert instances.version_of(ConnectorState(A, config=config_of("a"))) == "1.0.0", "whatever another one runs"
    instances.make(A, config_of("a"), None)
    assert instances.version_of(ConnectorState(A, config=config_of("a"))) == "2.0.0"
    shutil.rmtree(folder / "2.0.0")
    look(instances, now + 60)
    assert {name for name, text in told[1:] if "1.5.0 is installed, 2.0.0 runs" in text} == {A, "c"}
    assert len(told) == 3
    instances.close()


def look(instances: LeaderInstances, now: float) -> None:
    instances.look_for_upgrades(now)
    seen = instances._upgrades
    eventually(lambda: seen._last_state == seen._host.installed_plugins.read(), PATIENCE, "it has looked")
