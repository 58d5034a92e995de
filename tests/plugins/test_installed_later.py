"""Plugins that are installed or upgraded while the worker runs."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from ringfence.engine.plugins import PluginHost
from ringfence.engine.plugins import UnknownPlugin as Unknown
from ringfence.engine.plugins.calls import ReadConfigKeys
from ringfence.engine.plugins.errors import OffsetsNeeded
from tests.support.plugin_hosts import PATIENCE
from tests.support.waiting import eventually

CODE = """
from ringfence.connectors.api import ConfigDef, SourceConnector, SourceTask

class LateConnector(SourceConnector):
    version = "{version}"
    reads_offsets = {reads_offsets}

    @classmethod
    def config_def(cls): return ConfigDef()

    @classmethod
    def task_class(cls): return SourceTask

    def start(self, config): pass

    def task_configs(self, max_tasks): return [dict(config={version!r})]
"""
CONFIG = {"name": "c", "connector.class": "Late"}


def install(folder: Path, version: str, reads_offsets: str = "True") -> None:
    """As pip does: another folder of metadata in the place of the older one, and the code."""
    for old in folder.glob("late-*.dist-info"):
        for file in old.iterdir():
            file.unlink()
        old.rmdir()
    info = folder / f"late-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: late\nVersion: {version}\n")
    (info / "entry_points.txt").write_text("[ringfence.connectors]\nLate = late:LateConnector\n")
    (folder / "late.py").write_text(CODE.format(version=version, reads_offsets=reads_offsets))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "site-packages"
    path.mkdir()
    return path


@pytest.fixture
def host(folder: Path) -> Iterator[PluginHost]:
    host = PluginHost(environment={"PYTHONPATH": str(folder)}, call_seconds=PATIENCE)
    yield host
    host.close()


def version_in_list(host: PluginHost) -> object:
    return next((one["version"] for one in host.plugins() if one["class"] == "late.LateConnector"), None)


def test_a_new_plugin_is_found_and_an_upgraded_one_is_told(host: PluginHost, folder: Path) -> None:
    host.start_connector("other", {"name": "other", "connector.class": "VerifiableSource", "topic": "t"})
    with pytest.raises(Unknown):
        host.ask(ReadConfigKeys("Late"))
    install(folder, "1.0.0")
    assert host.ask(ReadConfigKeys("Late")) == []
    running = host.start_connector("c", CONFIG)  # in the process that had looked for plugins before
    assert host.task_configs("c", 1)[0]["config"] == "1.0.0"
    assert host.upgrade_of({"connector.class": "Late"}, running) is None

    install(folder, "2.0.0-beta")
    assert version_in_list(host) == "2.0.0-beta"
    assert host.start_connector("c", CONFIG) == running
    assert host.task_configs("c", 1)[0]["config"] == "1.0.0"
    told = host.upgrade_of({"connector.class": "Late"}, running)
    assert told is not None
    assert told.startswith("Late 2.0.0-beta is installed, 1.0.0 runs. Restart the workers")


def test_a_version_that_reads_offsets_gets_them(host: PluginHost, folder: Path) -> None:
    """Also where the process of instances ends, and all of them start again."""
    reconfigured: list[str] = []
    host._on_reconfigure = reconfigured.append
    install(folder, "1.0.0", "False")
    host.start_connector("c", CONFIG)
    assert not host.reads_offsets(CONFIG)
    host.start_connector("c", CONFIG, None)

    install(folder, "2.0.0", "True")
    os.kill(host._groups.home_of("c").live._process().pid, signal.SIGKILL)
    eventually(lambda: reconfigured == ["c"], PATIENCE, "the leader starts it")
    with pytest.raises(OffsetsNeeded):
        host.start_connector("c", CONFIG, None)
    assert host.reads_offsets(CONFIG)
    assert host.start_connector("c", CONFIG, [({"part": 1}, {"row": 2})]) == "2.0.0"
