"""Where plugins can be installed from the page: in the folder of `ringfence up`, unless others may come in."""

from pathlib import Path

import pytest

from ringfence.connectors.api import ConnectorError
from ringfence.connectors.java.processes import JavaProcess
from ringfence.local import cache, jars, java_connectors
from ringfence.local.data_directory import DataDirectory
from ringfence.local.environment import open_plugin_folder
from ringfence.local.plugin_installer import installer_of
from ringfence.local.running_platform import UpAccess

PATH, INSTALL = "CONNECT_PLUGIN_PATH", "CONNECT_PLUGIN_INSTALL_PATH"


@pytest.fixture
def instance(tmp_path: Path) -> DataDirectory:
    (tmp_path / "data").mkdir()
    return DataDirectory(tmp_path / "data")


def test_plugins_can_be_installed_in_a_folder_of_the_instance(instance: DataDirectory) -> None:
    folder = str(instance.root / "plugins")
    assert open_plugin_folder({}, instance, private=True) == {PATH: folder, INSTALL: folder}


def test_plugins_of_another_folder_stay(instance: DataDirectory) -> None:
    folder = str(instance.root / "plugins")
    env = open_plugin_folder({PATH: "/opt/plugins"}, instance, private=True)
    assert env == {PATH: f"/opt/plugins,{folder}", INSTALL: folder}


@pytest.mark.parametrize(
    "settings",
    [
        {PATH: "/opt/plugins", INSTALL: "/opt/plugins"},
        {PATH: "/opt/plugins", INSTALL: ""},
        {"RINGFENCE_DATABASE_URL": "postgresql://db.example.com/shared"},
    ],
)
def test_who_says_what_may_be_installed_is_heard(instance: DataDirectory, settings: dict[str, str]) -> None:
    assert open_plugin_folder(settings, instance, private=True) == settings
    assert open_plugin_folder({}, instance, private=False) == {}


def test_a_path_with_a_comma_would_be_two_folders(tmp_path: Path) -> None:
    assert open_plugin_folder({}, DataDirectory(tmp_path / "a,b"), private=True) == {}


@pytest.mark.parametrize(
    "variables, address, no_login, private",
    [
        ({}, "127.0.0.1:8083", False, True),
        ({}, "127.0.0.1:8083", True, False),  # every user of the machine may do everything
        ({}, "0.0.0.0:8083", False, False),
        ({"RINGFENCE_BEHIND_PROXY": "1"}, "127.0.0.1:8083", False, False),
    ],
)
def test_it_is_private_where_only_its_own_user_needs_no_login(
    instance: DataDirectory, variables: dict[str, str], address: str, no_login: bool, private: bool
) -> None:
    door = UpAccess.of(variables, address, instance, no_login=no_login, login=False)
    assert door.private is private


def test_an_empty_setting_installs_nothing() -> None:
    assert installer_of({"plugin.install.path": ""}) is None


def test_what_java_needs_is_fetched_for_the_first_plugin_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (cache, jars, java_connectors):
        monkeypatch.setattr(module, "cache_root", lambda: tmp_path / "cache")
    folder = tmp_path / "plugins"
    runtime = java_connectors.describe_runtime({"plugin.path": str(folder)})
    assert runtime is not None
    assert not (tmp_path / "cache").exists(), "a start fetches nothing"
    with pytest.raises(ConnectorError, match=r"java-host-.* is missing\. The worker fetches it: try again"):
        JavaProcess(runtime, lambda _connector: None)
    fetched: list[str] = []
    installer = installer_of({"plugin.install.path": str(folder)})
    assert installer is not None
    monkeypatch.setattr(installer, "_prepare", fetched.append)
    monkeypatch.setattr("ringfence.local.plugin_installer.install", lambda *_: folder)
    installer.fetch("io.debezium:debezium-connector-postgres:3.7.0.Final")
    installer.fetch("acme-source==1.2.0")
    assert fetched == [""], "a Python plugin needs none of it"


def test_the_runtime_that_is_described_is_the_one_that_is_prepared() -> None:
    runtime = java_connectors.java_runtime({"plugin.path": "/opt/plugins"})
    assert runtime is not None
    assert all(Path(jar).is_file() for jar in runtime.class_path.split(":"))
