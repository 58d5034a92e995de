"""Plugins in environments of their own, through the real host: who loads what, and in which version. No Kafka."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ringfence.engine.plugins import PluginHost, environments
from ringfence.engine.plugins import UnknownPlugin as Unknown
from ringfence.engine.plugins.calls import ReadConfigKeys, ReadExactlyOnceSupport, ValidateConfig
from ringfence.engine.plugins.errors import BadRequest
from ringfence.local.plugin_installer import install_package
from tests.support.plugin_hosts import PATIENCE
from tests.support.waiting import eventually
from tests.support.wheels import index_variables, make_plugin, make_shade, make_wheel

RED = {"name": "r", "connector.class": "red.RedConnector", "topic": "t"}
BLUE = {"name": "b", "connector.class": "Blue", "topic": "t"}


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "index"
    for name, value in index_variables(folder).items():
        monkeypatch.setenv(name, value)
    for each in ("1.0", "2.0"):
        make_shade(folder, each)
    make_plugin(folder, "red", "1.2", "1.0")
    make_plugin(folder, "red", "1.10", "2.0")
    make_plugin(folder, "blue", "3", "2.0")
    return folder


@pytest.fixture
def folder(tmp_path: Path, index: Path) -> Path:
    made = tmp_path / "plugins"
    made.mkdir()
    return made


@pytest.fixture
def host(folder: Path) -> Iterator[PluginHost]:
    host = PluginHost(call_seconds=PATIENCE, folders=[str(folder)])
    yield host
    host.close()


def seen(host: PluginHost, name: str) -> str:
    return host.task_configs(name, 1)[0]["seen"]


def test_each_plugin_has_its_own_version_of_a_library(host: PluginHost, folder: Path) -> None:
    install_package("red-source==1.2", folder)
    install_package("blue-source==3", folder)
    assert host.start_connector("r", RED) == "1.2"
    assert host.start_connector("b", BLUE) == "3"
    assert (seen(host, "r"), seen(host, "b")) == ("1.0", "2.0")
    assert sorted(host.running_connectors()) == ["b", "r"]
    listed = {str(each["class"]): each for each in host.plugins()}
    red = listed["red.RedConnector"]
    assert (red["version"], red["versions"], red["environment"]) == ("1.2", ["1.2"], str(folder / "red-source-1.2"))
    assert red["names"] == ["Red", "RedConnector", "red.RedConnector"]
    assert "with the library shade" in str(red["documentation"])
    assert [each["environment"] for name, each in listed.items() if "VerifiableSource" in name] == [None]
    assert host.ask(ReadExactlyOnceSupport(RED))[0] == "supported"
    assert host.ask(ValidateConfig("red.RedConnector", RED))["error_count"] == 0
    with pytest.raises(Unknown):
        host.ask(ReadConfigKeys("Green"))
    host.stop_connector("r")
    assert host.running_connectors() == ["b"]


@pytest.mark.thorough
def test_it_is_found_and_upgraded_while_the_host_runs(host: PluginHost, folder: Path) -> None:
    with pytest.raises(Unknown):
        host.ask(ReadConfigKeys("Red"))
    install_package("red-source==1.2", folder)
    running = host.start_connector("r", RED)
    assert host.upgrade_of(RED, running) is None
    install_package("red-source==1.10", folder)
    told = host.upgrade_of(RED, running)
    assert told == "red.RedConnector 1.10 is installed, 1.2 runs. Restart the connector with its tasks to run 1.10"
    assert seen(host, "r") == "1.0", "what runs goes on as it is"
    assert host.upgrade_of({**RED, "connector.plugin.version": "1.2"}, running) is None
    assert host.start_connector("r", RED) == "1.10"
    assert seen(host, "r") == "2.0"
    assert host.running_connectors() == ["r"], "the older instance is stopped"
    (red,) = (each for each in host.plugins() if each["class"] == "red.RedConnector")
    assert (red["version"], red["versions"]) == ("1.10", ["1.10", "1.2"])


@pytest.mark.thorough
def test_a_configuration_may_ask_for_a_version(host: PluginHost, folder: Path) -> None:
    for version in ("1.2", "1.10"):
        install_package(f"red-source=={version}", folder)
    assert host.start_connector("old", {**RED, "connector.plugin.version": "[1,1.5)"}) == "1.2"
    assert host.start_connector("new", RED) == "1.10"
    assert (seen(host, "old"), seen(host, "new")) == ("1.0", "2.0")
    with pytest.raises((BadRequest, Unknown)):
        host.ask(ReadConfigKeys("red.RedConnector", version="4"))


def test_one_that_cannot_be_loaded_is_told(host: PluginHost, folder: Path) -> None:
    place = install_package("red-source==1.2", folder)
    next(place.glob("lib/*/site-packages/shade.py")).unlink()
    assert host.find_broken_plugins()["Red"].startswith("ModuleNotFoundError")
    old = folder / "older-python"
    (old / "lib" / "python3.1" / "site-packages").mkdir(parents=True)
    (old / "pyvenv.cfg").touch()
    assert "was made for another Python" in host.find_broken_plugins()["older-python"]
    assert "red.RedConnector" not in {each["class"] for each in host.plugins()}


@pytest.mark.thorough
def test_a_class_that_is_defined_in_another_module_is_found_under_its_listed_name(
    host: PluginHost, folder: Path, index: Path
) -> None:
    points = "[ringfence.connectors]\nRose = rose:RedConnector\n"
    make_wheel(index, "rose-source", "7", {"rose.py": "from red import RedConnector\n"}, ["red-source==1.2"], points)
    install_package("rose-source==7", folder)
    (rose,) = (each for each in host.plugins() if "Rose" in each["names"])  # type: ignore[operator]
    assert (rose["class"], rose["version"]) == ("rose.RedConnector", "7")
    assert host.start_connector("r", {**RED, "connector.class": str(rose["class"])}) == "7"
    assert seen(host, "r") == "1.0"


@pytest.mark.thorough
def test_a_short_name_of_a_connector_beside_the_worker_stays_its_own(
    host: PluginHost, folder: Path, index: Path
) -> None:
    make_plugin(index, "verifiable", "1", "1.0")
    install_package("verifiable-source==1", folder)
    ours = host.class_of("VerifiableSource")
    assert ours is not None
    assert host.class_of("verifiable.VerifiableConnector") == "verifiable.VerifiableConnector"
    assert host.ask(ReadConfigKeys("VerifiableSource")), "it is asked, and not the other one"


@pytest.mark.thorough
def test_processes_that_nobody_uses_end(host: PluginHost, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_package("red-source==1.2", folder)
    host.ask(ReadConfigKeys("Red"))
    host.start_connector("r", RED)
    monkeypatch.setattr(environments, "_UNUSED_SECONDS", 0.0)
    host.close_unused()
    assert seen(host, "r") == "1.0", "an instance lives in it"
    host.stop_connector("r")
    host.close_unused()
    assert host._groups._others == {}
    eventually(lambda: host.start_connector("r", RED) == "1.2", PATIENCE, "it starts again")
