"""Which connectors restart because a file of their configuration was changed."""

import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from ringfence.engine.leader.reconfiguration_requests import ConfigReloads
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.connector_state import ConnectorState, TargetState

SETTINGS = {
    "config.providers": "file,dir",
    "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
    "config.providers.dir.class": "org.apache.kafka.common.config.provider.DirectoryConfigProvider",
    **{f"config.providers.{name}.param.allowed.paths": tempfile.gettempdir() for name in ("file", "dir")},
}


def connector(config: Mapping[str, str], target: TargetState = TargetState.RUNNING, offset: int = 7) -> ConnectorState:
    return ConnectorState(ConnectorName("c"), config, offset, target)


class Watch:
    """Looks at one connector, each time as if enough time had passed."""

    def __init__(self) -> None:
        self._reloads = ConfigReloads(SETTINGS, every_s=1.0)
        self._now = 0.0

    def look(self, one: ConnectorState) -> list[str]:
        self._now += 1.0
        return list(self._reloads.due(ClusterState(connectors={one.name: one}), self._now))


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    file = tmp_path / "secret.properties"
    file.write_text("password=one\n")
    return file


def test_a_changed_file_restarts_once_when_it_rests(secret: Path) -> None:
    watch, one = Watch(), connector({"password": f"${{file:{secret}:password}}"})
    assert watch.look(one) == []
    assert watch.look(one) == []
    secret.write_text("password=another\n")
    assert watch.look(one) == []  # perhaps it is still being written
    assert watch.look(one) == ["c"]
    assert watch.look(one) == []


def test_a_file_that_keeps_changing_or_is_away_is_waited_for(secret: Path) -> None:
    watch, one = Watch(), connector({"password": f"${{dir:{secret.parent}:{secret.name}}}"})
    watch.look(one)
    for text in ("12", "123", "1234"):
        secret.write_text(text)
        assert watch.look(one) == []
    secret.unlink()
    assert watch.look(one) == []
    assert watch.look(one) == []
    secret.write_text("12345")
    assert watch.look(one) == []
    assert watch.look(one) == ["c"]


@pytest.mark.parametrize(
    ("config", "target"),
    [
        ({"config.action.reload": "none"}, TargetState.RUNNING),
        ({}, TargetState.STOPPED),
    ],
)
def test_where_nothing_is_to_restart(secret: Path, config: dict[str, str], target: TargetState) -> None:
    watch, one = Watch(), connector({"password": f"${{file:{secret}:password}}", **config}, target)
    watch.look(one)
    secret.write_text("password=another\n")
    assert [watch.look(one) for _ in range(3)] == [[], [], []]


def test_a_new_configuration_has_read_the_file_already(secret: Path) -> None:
    watch, config = Watch(), {"password": f"${{file:{secret}:password}}"}
    watch.look(connector(config, offset=7))
    secret.write_text("password=another\n")
    assert [watch.look(connector(config, offset=9)) for _ in range(3)] == [[], [], []]


def test_text_and_variables_are_not_watched() -> None:
    watch, one = Watch(), connector({"password": "${env:HOME} ${file:}"})
    assert [watch.look(one) for _ in range(3)] == [[], [], []]
