"""A plugin host whose processes have the hostile connector installed beside the built-in ones."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ringfence.engine.plugins import PluginError, PluginHost

ROOT = Path(__file__).resolve().parents[2]


PATIENCE = 60.0
"""Seconds for calls that are meant to be answered: on a busy machine ten are not enough for a process to start."""


class Heard:
    """What the host reported."""

    def __init__(self) -> None:
        self.reconfigured: list[str] = []
        self.failed: list[tuple[str, PluginError]] = []


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("installed")
    info = folder / "hostile-6.6.6.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: hostile\nVersion: 6.6.6\n")
    (info / "entry_points.txt").write_text(
        "[ringfence.connectors]\nHostile = tests.plugins.hostile:HostileConnector\nBroken = tests.plugins.nowhere:X\n"
    )
    return {"PYTHONPATH": f"{folder}:{ROOT}"}


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def host(environment: dict[str, str], heard: Heard) -> Iterator[PluginHost]:
    host = PluginHost(
        heard.reconfigured.append,
        lambda name, error: heard.failed.append((name, error)),
        environment=environment,
        call_seconds=PATIENCE,
    )
    yield host
    host.close()


def hostile(mood: str = "fine", **more: str) -> dict[str, str]:
    return {"name": "c", "connector.class": "Hostile", "mood": mood, **more}
