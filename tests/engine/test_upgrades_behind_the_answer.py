"""Whoever changes a connector does not wait until the leader knows which versions of its plugin are installed."""

import threading
from typing import Any, cast

from ringfence.engine.leader.connector_instances import LeaderInstances
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.offsets.source_offsets import SourceOffsets
from tests.support.waiting import eventually

A = ConnectorName("a")


class Host:
    """Starts instances at once, and is slow to say what is installed."""

    def __init__(self) -> None:
        self.may_tell = threading.Event()

    def start_connector(self, *_: object, **__: object) -> str:
        return "1.0"

    def task_configs(self, *_: object) -> list[dict[str, str]]:
        return [{"task": "0"}]

    def stop_connector(self, _name: str) -> None:
        pass

    def reads_offsets(self, _config: object) -> bool:
        return True

    def upgrade_of(self, _config: object, running: str) -> str | None:
        self.may_tell.wait(60)
        return f"2.0 is installed, {running} runs"


class NoOffsets:
    def await_view(self) -> None:
        pass

    def prepare(self, *_: object) -> None:
        pass

    def read(self, *_: object) -> SourceOffsets:
        return SourceOffsets(A)


def test_tasks_are_made_before_upgrades_are_looked_for() -> None:
    host, told = Host(), list[tuple[str, str]]()
    instances = LeaderInstances(
        cast("Any", host), cast("Any", NoOffsets()), lambda: None, lambda *text: told.append(text)
    )
    try:
        assert instances.make(A, {"name": "a"}, None) == [{"task": "0"}]
        assert told == []
        host.may_tell.set()
        eventually(lambda: told == [(A, "2.0 is installed, 1.0 runs")], 10)
    finally:
        host.may_tell.set()
        instances.close()
