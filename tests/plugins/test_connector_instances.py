"""Connector instances on the leader, with the real plugin process: none outlives its use."""

import threading
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from ringfence.connectors.api import ConnectorError, SourceConnector
from ringfence.engine.leader.command_service import CommandContext
from ringfence.engine.leader.commands import Create
from ringfence.engine.leader.commands.command import WriteResult
from ringfence.engine.leader.connector_instances import LeaderInstances
from ringfence.engine.plugins import PluginError, PluginHost
from ringfence.engine.plugins.errors import OffsetsNeeded
from ringfence.engine.plugins.instances import InstanceContext, reader_for
from ringfence.fencing.clock import Deadline
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.requests.request import Refusal
from tests.support.no_offsets import NoOffsets
from tests.support.plugin_hosts import hostile
from tests.support.waiting import eventually

C = ConnectorName("c")


@pytest.fixture
def instances(host: PluginHost) -> LeaderInstances:
    return LeaderInstances(host, NoOffsets(), lambda: None)  # type: ignore[arg-type]


def test_an_instance_that_fails_to_make_tasks_is_stopped(host: PluginHost, instances: LeaderInstances) -> None:
    """Else its threads would go on, also after the connector is deleted: nothing else knows of it."""
    with pytest.raises(PluginError, match="no luck"):
        instances.make(C, hostile("raise"), None)
    assert host.running_connectors() == []


def test_an_instance_whose_configuration_was_not_written_is_stopped(
    host: PluginHost, instances: LeaderInstances
) -> None:
    assert instances.make(C, hostile(), None)
    assert host.running_connectors() == [C]
    instances.discard(C)
    eventually(lambda: host.running_connectors() == [], 30, "it is stopped")


class _Offsets(NoOffsets):
    """was_read: once it was read."""

    def __init__(self) -> None:
        self.was_read = threading.Event()
        self.reads = 0

    def read(self, *arguments: object) -> Any:
        self.reads += 1
        self.was_read.set()
        return super().read(*arguments)


def _leading(host: PluginHost, offsets: _Offsets) -> CommandContext:
    """Access to a leader without connectors, whose validation finds no error once the offsets are read."""

    def refuse(*_: object) -> Future[WriteResult]:
        raise Refusal(409, "Here, nothing is written")

    leader: Any = SimpleNamespace(
        instances=LeaderInstances(host, offsets, lambda: None),  # type: ignore[arg-type]
        state=ClusterState,
        submit=refuse,
    )

    def validate(*_: object, **__: object) -> dict[str, object]:
        assert offsets.was_read.wait(10), "they are read beside the validation"
        return {}

    validation: Any = SimpleNamespace(validate=validate)
    nothing: Any = None
    return CommandContext(leader, host, nothing, nothing, validation, Deadline.after(30), "")


def test_offsets_are_read_beside_the_validation(host: PluginHost) -> None:
    with pytest.raises(Refusal, match="Here, nothing is written"):
        Create("c", hostile()).run(_leading(host, _Offsets()), lambda _: None)


def test_no_offsets_topic_is_created_for_what_may_be_refused(host: PluginHost) -> None:
    offsets = _Offsets()
    _leading(host, offsets).read_offsets_ahead(C, hostile(**{"offsets.storage.topic": "own"}))
    assert not offsets.was_read.wait(0.2)


NUMBERS = {"name": "c", "connector.class": "VerifiableSource", "topic": "numbers"}


def test_offsets_that_a_connector_does_not_read_are_not_read_for_it(host: PluginHost) -> None:
    offsets = _Offsets()
    instances = LeaderInstances(host, offsets, lambda: None)  # type: ignore[arg-type]
    assert instances.needs_offsets(NUMBERS), "what it declares is not known yet"
    for _ in range(3):
        assert instances.make(C, NUMBERS, None)
    assert offsets.reads == 1
    assert not instances.needs_offsets(NUMBERS)
    assert instances.needs_offsets({**NUMBERS, "offsets.storage.topic": "own"}), "else nobody creates that topic"


def test_offsets_that_a_connector_reads_are_read_each_time(host: PluginHost) -> None:
    offsets = _Offsets()
    instances = LeaderInstances(host, offsets, lambda: None)  # type: ignore[arg-type]
    for _ in range(3):
        assert instances.make(C, hostile(), None)
    assert offsets.reads == 3
    assert instances.needs_offsets(hostile())


def test_a_connector_that_reads_its_offsets_does_not_start_without_them(host: PluginHost) -> None:
    host.start_connector(C, hostile())
    with pytest.raises(OffsetsNeeded):
        host.start_connector(C, hostile(), None)
    assert host.running_connectors() == []
    assert host.start_connector(C, NUMBERS, None)


def test_a_reader_of_offsets_that_declares_that_it_is_none_fails() -> None:
    class Wrong(SourceConnector):
        reads_offsets = False

    context = InstanceContext(reader_for(Wrong, [({"n": 1}, {"at": 2})]))
    with pytest.raises(ConnectorError, match="reads_offsets = False"):
        context.offset_reader.offset({"n": 1})
    with pytest.raises(ConnectorError, match="reads_offsets = False"):
        context.offset_reader.offsets([])
