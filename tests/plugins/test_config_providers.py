"""Config providers in the plugin process: the plugin sees values, everybody else the references."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ringfence.connectors.config_providers import PROVIDERS
from ringfence.engine.plugins import PluginError, PluginHost
from ringfence.engine.plugins.calls import ValidateConfig
from tests.support.plugin_hosts import PATIENCE, hostile

CLASS = "org.apache.kafka.common.config.provider.FileConfigProvider"


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    path = tmp_path / "secrets.properties"
    path.write_text("password=hunter22\nmood=tell\nrest=fine\ntasks=2\nbad=-7\ncount=zz\n")
    return path


@pytest.fixture
def host(environment: dict[str, str], secrets: Path) -> Iterator[PluginHost]:
    settings = {"config.providers": "file", "config.providers.file.class": CLASS}
    settings["config.providers.file.param.allowed.paths"] = str(secrets.parent)
    host = PluginHost(
        environment={**environment, PROVIDERS: json.dumps(settings)}, call_processes=1, call_seconds=PATIENCE
    )
    yield host
    host.close()


def values(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {entry["value"]["name"]: entry["value"] for entry in found["configs"]}


def test_validation_sees_values_and_shows_references(host: PluginHost, secrets: Path) -> None:
    ref = "${file:" + str(secrets) + ":%s}"
    config = hostile(ref % "mood", password=ref % "password")
    config |= {"tasks.max": ref % "bad", "count": ref % "count"}
    found = host.ask(ValidateConfig("Hostile", config))
    shown = values(found)
    assert shown["tasks.max"]["value"] == ref % "bad"
    assert ref % "bad" in shown["tasks.max"]["errors"][0]
    assert ref % "count" in shown["count"]["errors"][0]
    assert shown["mood"]["value"] == ref % "mood"
    text = json.dumps(found)
    for secret in ("hunter22", '"-7"', "value -7", "value zz", '"tell"'):
        assert secret not in text


def test_what_the_plugin_tells_of_a_value_is_hidden(host: PluginHost, secrets: Path) -> None:
    ref = "${file:" + str(secrets) + ":%s}"
    found = host.ask(ValidateConfig("Hostile", hostile("tell", password=ref % "password")))
    assert values(found)["mood"]["errors"] == ["password [hidden] is weak"]


def test_a_reference_that_leads_nowhere_is_an_error_of_its_setting(host: PluginHost, secrets: Path) -> None:
    config = hostile(password="${file:" + str(secrets) + ":missing}", other="${file:/etc/passwd:root}")
    found = host.ask(ValidateConfig("Hostile", config))
    shown = values(found)
    assert "has no line missing=" in shown["password"]["errors"][0]
    assert "not below the worker's allowed.paths" in shown["other"]["errors"][0]
    assert found["error_count"] == 2
    with pytest.raises(PluginError, match="has no line missing="):
        host.start_connector("c", hostile(password="${file:" + str(secrets) + ":missing}"))


def test_an_instance_gets_values_and_its_tasks_are_stored_without(host: PluginHost, secrets: Path) -> None:
    ref = "${file:" + str(secrets) + ":%s}"
    config = hostile(ref % "rest", count=ref % "tasks", password=ref % "password")
    config["tasks.max"] = ref % "tasks"
    host.start_connector("c", config)
    assert len(host.task_configs("c", 0)) == 2, "the count came from the file"
    host.start_connector("d", hostile("echo", password=ref % "password"))
    assert host.task_configs("d", 1)[0]["password"] == ref % "password"
