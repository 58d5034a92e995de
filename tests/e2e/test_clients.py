"""The unmodified clients from PyPI, every call of theirs: kafka-connect-py and kafka-connect-api."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import requests
from kafka_connect import KafkaConnect
from kafka_connect_api.errors import GenericNotFound
from kafka_connect_api.kafka_connect_api import Api, Cluster

from tests.e2e.up import Up
from tests.support.names import unique
from tests.support.waiting import eventually

CLASS = "VerifiableSource"


@pytest.fixture
def name(platform: Up) -> Iterator[str]:
    """A connector's name; whatever has it is deleted afterwards."""
    made = unique("client")
    yield made
    platform.rest.call("DELETE", f"/connectors/{made}")


def config(name: str) -> dict[str, Any]:
    return {"name": name, "connector.class": CLASS, "topic": name, "tasks.max": 2, "throughput": 20}


def await_running(state_of: Callable[[], dict[str, Any]], tasks: int = 2) -> None:
    def running() -> bool:
        try:
            status = state_of()
        except (requests.HTTPError, GenericNotFound):
            return False  # nobody has reported yet: a 404 there, too
        states = [status["connector"]["state"], *(task["state"] for task in status["tasks"])]
        return states == ["RUNNING"] * (tasks + 1)

    eventually(running, 60, "RUNNING", pause=0.2)


@pytest.mark.thorough
def test_kafka_connect_py(platform: Up, name: str) -> None:
    client = KafkaConnect(platform.rest.url)
    assert int(client.get_cluster_info()["version"].split(".")[0]) >= 4
    assert CLASS in " ".join(plugin["class"] for plugin in client.list_connector_plugins())
    assert client.validate_connector_config(CLASS, config(name))["error_count"] == 0

    created = client.create_connector({"name": name, "config": config(name)})
    assert created["config"]["tasks.max"] == "2"
    with pytest.raises(requests.HTTPError, match="409"):
        client.create_connector({"name": name, "config": config(name)})
    await_running(lambda: client.get_connector_status(name))
    assert client.get_connector(name)["type"] == "source"
    assert client.get_connector_config(name)["topic"] == name
    assert name in client.list_connectors()
    for expand, part in (("status", "connector"), ("info", "config")):
        assert part in client.list_connectors(expand=expand, pattern=name)[name][expand]
    assert client.list_connectors(pattern=name, state="running") == [name]

    updated = client.update_connector(name, {**config(name), "throughput": 30})
    assert updated["config"]["throughput"] == "30"
    await_running(lambda: client.get_connector_status(name))
    assert [task["id"]["task"] for task in client.list_connector_tasks(name)] == [0, 1]
    # As in Kafka Connect, a status is the old tasks' for a moment, so the new ones may not have been placed above.
    eventually(lambda: client.get_connector_task_status(name, 1)["state"] == "RUNNING", 60, "the new task 1 runs")
    await_running(lambda: client.get_connector_status(name))
    eventually(lambda: client.list_connector_topics(name) == {name: {"topics": [name]}}, 60, "its topic is active")
    client.reset_connector_topics(name)

    client.restart_connector_task(name, 0)
    assert client.restart_connector(name) is None
    restarting = client.restart_connector(name, include_tasks=True)
    assert [task["state"] for task in restarting["tasks"]] == ["RESTARTING"] * 2
    client.restart_all_connectors(include_tasks=True, only_failed=True, pattern=name)
    await_running(lambda: client.get_connector_status(name))

    def state() -> str:
        return str(client.get_connector_status(name)["connector"]["state"])

    client.pause_connector(name)
    eventually(lambda: state() == "PAUSED", 60, "paused")
    client.resume_connector(name)
    await_running(lambda: client.get_connector_status(name))
    client.pause_all_connectors(pattern=name, state="running")
    eventually(lambda: state() == "PAUSED", 60, "all are paused")
    client.resume_all_connectors(pattern=name, state="paused")
    eventually(lambda: state() == "RUNNING", 60, "all are resumed")
    client.stop_connector(name)
    client.resume_connector(name)
    client.stop_all_connectors(pattern=name)
    eventually(lambda: state() == "STOPPED", 60, "all are stopped")
    client.delete_connector(name)
    assert name not in client.list_connectors()
    with pytest.raises(requests.HTTPError, match="404"):
        client.get_connector(name)
    client.create_connector({"name": name, "config": config(name)})
    await_running(lambda: client.get_connector_status(name))  # it deletes what has a status
    client.delete_all_connectors(pattern=name)
    assert name not in client.list_connectors()


@pytest.mark.thorough
def test_kafka_connect_api(platform: Up, name: str) -> None:
    host, port = platform.http.split(":")
    cluster = Cluster(Api(hostname=host, port=int(port)))
    assert int(cluster.version.split(".")[0]) >= 4
    assert cluster.kafka_cluster
    assert platform.http in repr(cluster)

    platform.rest.expect(201, "POST", "/connectors", {"name": name, "config": config(name)})  # it cannot create
    connector = cluster.connectors[name]
    await_running(lambda: connector.status)
    assert connector.exists()
    assert connector.connector_class == CLASS
    connector.config = {**connector.config, "throughput": "30"}
    assert connector.config["throughput"] == "30"
    await_running(lambda: connector.status)

    task = connector.tasks[1]
    assert (task.id, task.config["task.class"].rpartition(".")[2]) == (1, "VerifiableSourceTask")
    eventually(task.is_running, 60, "the task of the new configuration runs")
    task.restart()
    await_running(lambda: connector.status)
    connector.restart()
    connector.restart_all_tasks()
    await_running(lambda: connector.status)
    connector.pause()
    eventually(lambda: connector.state == "PAUSED", 60, "paused")
    connector.resume()
    await_running(lambda: connector.status)
    connector.cycle_connector()
    await_running(lambda: connector.status)

    assert cluster.root_logger["level"] == "INFO"
    cluster.root_logger = "WARN"
    assert cluster.root_logger["level"] == "WARN"
    cluster.root_logger = "INFO"
    assert cluster.set_logger_log_level("uvicorn", "DEBUG") == ["uvicorn", *_below(cluster, "uvicorn")]
    cluster.set_logger_log_level("uvicorn", "INFO")

    connector.delete()
    with pytest.raises(GenericNotFound):
        connector.exists()
    assert name not in cluster.connectors


def _below(cluster: Cluster, namespace: str) -> list[str]:
    return sorted(name for name in cluster.loggers if name.startswith(f"{namespace}."))
