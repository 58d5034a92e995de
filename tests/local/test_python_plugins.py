"""Python plugins that are installed in an environment of their own, by pip and from real wheels."""

import os
import sys
import tarfile
from importlib.metadata import version
from pathlib import Path

import pytest

from ringfence.cli import main
from ringfence.connectors.plugin_environments import find_environments
from ringfence.engine.plugins.installations import InstallFailed
from ringfence.local.errors import LocalError
from ringfence.local.plugin_folders import digest, read_contents
from ringfence.local.plugin_installer import install_package, install_wheel, installer_of
from tests.support.wheels import make_plugin, make_wheel, use_index


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return use_index(tmp_path / "index", monkeypatch, "1.0", "2.0")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "path" / "plugins"


@pytest.mark.thorough
def test_plugins_have_different_versions_of_one_library(index: Path, folder: Path) -> None:
    make_plugin(index, "red", "1.2", "1.0")
    make_plugin(index, "blue", "3", "2.0")
    red, blue = install_package("red-source==1.2", folder), install_package("blue-source==3", folder)
    assert install_package("red-source==1.2", folder) == red, "once"
    assert [each.name for each in (red, blue)] == ["red-source-1.2", "blue-source-3"]
    found = {each.plugins[0]: Path(each.packages) for each in find_environments([str(folder)])}
    versions = {plugin.class_name: plugin.version for plugin in found}
    assert versions == {"red.RedConnector": "1.2", "blue.BlueConnector": "3"}
    shades = {plugin.class_name: (packages / "shade.py").read_text() for plugin, packages in found.items()}
    assert shades == {"red.RedConnector": "VERSION = '1.0'\n", "blue.BlueConnector": "VERSION = '2.0'\n"}
    contents = read_contents(red)
    assert contents.connectors == {"red.RedConnector": "1.2"}
    wheels = ("red_source-1.2-py3-none-any.whl", "shade-1.0-py3-none-any.whl")
    assert contents.files == {name: digest(index / name) for name in wheels}
    for packages in found.values():
        assert not [*packages.glob("ringfence*"), *packages.glob("*platform*")], "the platform is not installed again"
    assert [each.name for each in folder.parent.iterdir()] == ["plugins"], "nothing else is left"


def test_a_wheel_is_installed_with_its_dependencies(index: Path, folder: Path, tmp_path: Path) -> None:
    wheel = make_plugin(tmp_path / "elsewhere", "red", "1.2", "1.0")
    place = install_wheel(wheel, folder)
    assert install_wheel(wheel, folder) == place
    assert read_contents(place).files[wheel.name] == digest(wheel)
    other = make_plugin(tmp_path / "other", "red", "1.2", "2.0")
    with pytest.raises(LocalError, match=r"from another file: give the wheel another version"):
        install_wheel(other, folder)


def test_what_the_platform_is_made_of_keeps_its_version(index: Path, folder: Path) -> None:
    make_wheel(index, "orjson", "1.0", {"orjson.py": ""})
    make_plugin(index, "red", "1.2", "1.0", "orjson<2")
    with pytest.raises(LocalError) as refused:
        install_package("red-source==1.2", folder)
    conflict = f"red-source 1.2 depends on orjson<2; The user requested (constraint) orjson=={version('orjson')}"
    assert conflict in str(refused.value)
    assert "keep their versions: use a version that is compatible with them" in str(refused.value)
    assert not [*folder.iterdir()]


@pytest.mark.thorough
def test_an_extra_of_the_platform_is_installed_with_a_plugin(index: Path, folder: Path) -> None:
    make_plugin(index, "red", "1.2", "1.0", "ringfence[files]")
    one_of_it = "(backports|fastavro|paramiko|pyarrow|s3fs)"
    with pytest.raises(LocalError, match=f"No matching distribution found for {one_of_it}"):
        install_package("red-source==1.2", folder)
    extra = {"fastavro": "1.99", "paramiko": "9", "pyarrow": "99", "s3fs": "2099"}
    if sys.version_info < (3, 14):
        extra["backports_zstd"] = "1.99"
    for name, newest in extra.items():
        make_wheel(index, name, newest, {f"{name}.py": ""})
    place = install_package("red-source==1.2", folder)
    assert extra.keys() <= {file.partition("-")[0] for file in read_contents(place).files}


@pytest.mark.thorough
def test_what_needs_to_be_built_is_refused(index: Path, folder: Path, tmp_path: Path) -> None:
    trap = tmp_path / "built"
    (tmp_path / "setup.py").write_text(f"open({str(trap)!r}, 'w')\n")
    with tarfile.open(index / "red_source-1.2.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "setup.py", "red_source-1.2/setup.py")
    with pytest.raises(LocalError, match="Only wheels are installed"):
        install_package("red-source==1.2", folder)
    assert not trap.exists(), "nothing of a package runs while it is installed"


@pytest.mark.parametrize("text", ["red", "red>=1", "--index-url=http://x", "red==1 2", "-e .", "git+https://x@y==1"])
def test_what_is_no_version_of_a_package_is_refused(text: str, folder: Path) -> None:
    with pytest.raises(LocalError, match="write name==version"):
        install_package(text, folder)


def test_what_holds_no_connector_is_refused(index: Path, folder: Path) -> None:
    with pytest.raises(LocalError, match=r"shade==1.0 contains no source connector"):
        install_package("shade==1.0", folder)
    assert not [*folder.iterdir()]


def test_an_installer_takes_packages_and_wheels(index: Path, folder: Path) -> None:
    wheel = make_plugin(index, "red", "1.2", "1.0")
    installer = installer_of({"plugin.install.path": str(folder)})
    assert installer is not None
    done = installer.fetch("red-source==1.2")
    assert done["connectors"] == {"red.RedConnector": "1.2"}
    data = wheel.read_bytes()
    (folder / "red-source-1.2").rename(folder.parent / "away")
    assert installer.unpack(wheel.name, digest(wheel), [data[:100], data[100:]]) == done
    with pytest.raises(InstallFailed, match="does not have the SHA-256"):
        installer.unpack(wheel.name, digest(wheel), [data[:100]])
    with pytest.raises(InstallFailed, match=r"for Java, write group:artifact:version.*for Python, write name==version"):
        installer.fetch("red")


def test_the_command_installs_into_a_folder(index: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wheel = make_plugin(index, "red", "1.2", "1.0")
    assert main(["plugins", "install", "red-source==1.2", "--into", str(folder)]) == 0
    told = capsys.readouterr().out
    assert "red.RedConnector 1.2" in told
    assert f"{digest(wheel)}  {wheel.name}" in told
    assert os.fspath(folder / "red-source-1.2") in told
