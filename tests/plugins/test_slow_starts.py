"""Plugin processes that start slowly, as they do on a busy machine: no call kills them, and the next one finds them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ringfence.engine.leader.connector_instances import LeaderInstances
from ringfence.engine.plugins import PluginHost
from ringfence.engine.plugins.errors import PluginTimeout
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.topics.connector_state import ConnectorState
from tests.support.no_offsets import NoOffsets
from tests.support.plugin_hosts import PATIENCE
from tests.support.waiting import eventually

SECONDS = 4
CONFIG = {"name": "c", "connector.class": "VerifiableSource", "topic": "t"}


@pytest.fixture
def host(tmp_path: Path) -> Iterator[PluginHost]:
    (tmp_path / "sitecustomize.py").write_text(
        f"import os, time, pathlib\ntime.sleep({SECONDS})\npathlib.Path({str(tmp_path)!r}, str(os.getpid())).touch()\n"
    )
    host = PluginHost(environment={"PYTHONPATH": str(tmp_path)})
    yield host
    host.close()


def processes(folder: Path) -> list[str]:
    return [each.name for each in folder.iterdir() if each.name.isdecimal()]


def test_a_call_that_was_too_early_leaves_the_process_to_the_next(host: PluginHost, tmp_path: Path) -> None:
    with pytest.raises(PluginTimeout, match="still starting, since this machine is busy"):
        host.plugins(timeout=1)
    assert host.plugins(timeout=PATIENCE)
    assert len(processes(tmp_path)) == 1


def test_an_instance_starts_in_the_process_that_was_too_slow_at_first(host: PluginHost, tmp_path: Path) -> None:
    with pytest.raises(PluginTimeout, match="still starting"):
        host.start_connector("c", CONFIG, timeout=1)
    host.start_connector("c", CONFIG, timeout=PATIENCE)
    assert host.task_configs("c", 1)
    assert len(processes(tmp_path)) == 1


def test_a_connector_whose_process_is_still_starting_has_not_failed(host: PluginHost) -> None:
    host._call_seconds = 1
    instances = LeaderInstances(host, NoOffsets(), lambda: None)  # type: ignore[arg-type]
    connector = ConnectorState(ConnectorName("c"), CONFIG, 5)

    def tasks() -> bool:
        instances.ask(connector)
        found = instances.answers()
        assert instances.trace_of(connector.name, 5) is None
        return any(each.tasks for each in found)

    eventually(tasks, PATIENCE, "it is asked again until it answers")
