"""Connector instances on the leader, with the real plugin process: none outlives its use."""

import pytest

from ringfence.engine.leader.connector_instances import LeaderInstances
from ringfence.engine.plugins import PluginError, PluginHost
from ringfence.fencing.ids import ConnectorName
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
