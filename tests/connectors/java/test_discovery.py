"""`plugin.path`, without a JVM."""

import zipfile
from pathlib import Path

import pytest

from ringfence.connectors.builtin.file_stream.connector import FileStreamSourceConnector
from ringfence.connectors.common_settings import PLUGIN_VERSION
from ringfence.connectors.java import discovery, processes, runtime
from ringfence.connectors.java.connector import JavaSourceConnector
from ringfence.connectors.java.discovery import JavaPlugin, find_places, find_plugins, find_signature
from ringfence.connectors.plugins import PluginRegistry
from ringfence.engine.plugins import validation
from ringfence.engine.plugins.errors import BadRequest

MANIFEST = "META-INF/services/org.apache.kafka.connect.source.SourceConnector"
FILE_STREAM = "org.apache.kafka.connect.file.FileStreamSourceConnector"


def jar(path: Path, *classes: str, **files: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(MANIFEST, "# comment\n" + "\n".join(f"{each} # and one" for each in classes) + "\n\n")
        for name, text in files.items():
            archive.writestr(name, text)
    return path


def test_folders_and_jars_directly_in_it(tmp_path: Path) -> None:
    jar(tmp_path / "one" / "deep" / "one-1.2.3.jar", "a.One", "a.Two")
    jar(tmp_path / "three-4.0.jar", "a.Three")
    jar(tmp_path / "alone" / "four-5-SNAPSHOT.jar", "a.Four")
    (tmp_path / "one" / "notes.txt").write_text("nothing")
    (tmp_path / "one" / "broken.jar").write_text("no archive")
    found = {plugin.class_name: plugin for plugin in find_plugins([str(tmp_path)])}
    assert set(found) == {"a.One", "a.Two", "a.Three", "a.Four"}
    assert found["a.One"].location == str(tmp_path / "one")
    assert [found[name].version for name in ("a.One", "a.Three", "a.Four")] == ["1.2.3", "4.0", "5-SNAPSHOT"]


def test_one_jar_may_be_an_entry_itself_and_a_missing_folder_holds_nothing(tmp_path: Path) -> None:
    one = jar(tmp_path / "x" / "one.jar", "a.One")
    found = find_plugins([str(one), str(tmp_path / "nowhere")])
    assert [(each.class_name, each.version) for each in found] == [("a.One", "unknown")]


def test_the_version_is_mavens_or_the_manifests(tmp_path: Path) -> None:
    jar(tmp_path / "m" / "a-0.jar", "a.M", **{"META-INF/maven/g/a/pom.properties": "groupId=g\nversion=3.7.0.Final\n"})
    jar(tmp_path / "i" / "b-0.jar", "a.I", **{"META-INF/MANIFEST.MF": "X: 1\nImplementation-Version: 2.5\n"})
    assert [each.version for each in find_plugins([str(tmp_path)])] == ["2.5", "3.7.0.Final"]


def test_all_versions_the_newest_first_and_of_one_version_one_copy(tmp_path: Path) -> None:
    jar(tmp_path / "old" / "a-1.9.0.jar", "a.A")
    jar(tmp_path / "new" / "a-1.10.0.jar", "a.A")
    jar(tmp_path / "copy" / "a-1.9.0.jar", "a.A")
    found = find_plugins([str(tmp_path)])
    assert [(each.version, Path(each.location).name) for each in found] == [("1.10.0", "new"), ("1.9.0", "copy")]


def test_a_jvm_sees_one_version_of_each_plugin(tmp_path: Path) -> None:
    for version in ("1", "2", "3"):
        jar(tmp_path / f"a{version}" / f"a-{version}.jar", "a.A")
    jar(tmp_path / "b" / "b-1.jar", "a.B")
    (tmp_path / "transforms").mkdir()
    folders = [str(tmp_path)]
    found = {(each.class_name, each.version): each for each in find_plugins(folders)}

    def seen(wanted: JavaPlugin | None) -> list[str]:
        return [Path(place).name for place in find_places(folders, wanted)]

    assert seen(found["a.A", "1"]) == ["a1", "b", "transforms"]
    assert seen(found["a.A", "3"]) == seen(found["a.B", "1"]) == seen(None) == ["a3", "b", "transforms"]
    for version in ("1", "2"):
        (tmp_path / f"a{version}" / f"a-{version}.jar").unlink()
        (tmp_path / f"a{version}").rmdir()
    assert find_places(folders, found["a.A", "3"]) == (), "it looks everywhere where nothing is there twice"


def test_the_places_are_looked_for_again_when_jars_come_or_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[JavaPlugin | None] = []

    def find(folders: tuple[str, ...], wanted: JavaPlugin | None) -> tuple[str, ...]:
        looked.append(wanted)
        return find_places(folders, wanted)

    def places() -> list[str]:
        folders = (str(tmp_path),)
        return [Path(each).name for each in processes._places(folders, None, find_signature(folders))]

    monkeypatch.setattr(processes, "find_places", find)
    jar(tmp_path / "a1" / "a-1.jar", "a.A")
    jar(tmp_path / "a2" / "a-2.jar", "a.A")
    assert places() == places() == ["a2"]
    assert len(looked) == 1
    jar(tmp_path / "a3" / "a-3.jar", "a.A")
    assert places() == ["a3"]


def test_a_plugin_that_comes_is_found_and_each_jar_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jar(tmp_path / "one" / "one-1.jar", "a.One")
    before = find_signature([str(tmp_path)])
    find_plugins([str(tmp_path)])
    opened: list[str] = []
    whole = zipfile.ZipFile

    def open_(path: str) -> zipfile.ZipFile:
        opened.append(path)
        return whole(path)

    monkeypatch.setattr(discovery, "ZipFile", open_)
    jar_ = tmp_path / "two" / "two-1.jar"
    with whole(_made(jar_), "w") as archive:
        archive.writestr(MANIFEST, "a.Two")
    assert find_signature([str(tmp_path)]) != before
    assert [each.class_name for each in find_plugins([str(tmp_path)])] == ["a.One", "a.Two"]
    assert opened == [str(jar_)]


def _made(path: Path) -> Path:
    path.parent.mkdir()
    return path


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PluginRegistry:
    monkeypatch.setattr(runtime, "_current", [runtime.JavaRuntime("java", "", str(tmp_path))])
    return PluginRegistry.discover()


def test_a_java_class_name_means_javas_where_it_is_there_and_short_names_stay_with_ours(
    tmp_path: Path, registry: PluginRegistry
) -> None:
    assert registry.find(FILE_STREAM).cls is FileStreamSourceConnector
    jar(tmp_path / "file" / "connect-file-4.3.0.jar", FILE_STREAM, "a.OtherConnector")
    registry.follow_plugin_path()
    found = registry.find(FILE_STREAM)
    assert issubclass(found.cls, JavaSourceConnector)
    assert (found.cls.java_class, found.version) == (FILE_STREAM, "4.3.0")
    assert registry.find("FileStreamSource").cls is FileStreamSourceConnector
    assert registry.find("Other").class_name == "a.OtherConnector"
    registry.follow_plugin_path()
    assert registry.find(FILE_STREAM) is found, "a plugin that stays is the same object"


def test_a_plugin_that_goes_leaves_its_name_to_ours(tmp_path: Path, registry: PluginRegistry) -> None:
    there = jar(tmp_path / "connect-file-4.3.0.jar", FILE_STREAM)
    registry.follow_plugin_path()
    there.unlink()
    registry.follow_plugin_path()
    assert registry.find(FILE_STREAM).cls is FileStreamSourceConnector


OTHER = "a.OtherConnector"


def validated_version(registry: PluginRegistry, wanted: str | None) -> tuple[list[str], list[str | None]]:
    """Its errors, and what is offered."""
    config = {"name": "c", "connector.class": "Other", **({} if wanted is None else {PLUGIN_VERSION: wanted})}
    body = validation.validate(registry, OTHER, config, exactly_once=False)
    (found,) = [each["value"] for each in body["configs"] if each["value"]["name"] == PLUGIN_VERSION]  # type: ignore[attr-defined]
    return found["errors"], found["recommended_values"]


def test_a_configuration_chooses_its_version(
    tmp_path: Path, registry: PluginRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    for version in ("1.0.0", "1.5.0", "2.0.0"):
        jar(tmp_path / version / f"other-{version}.jar", OTHER)
    registry.follow_plugin_path()
    named = {"connector.class": OTHER}
    for wanted, version in ((None, "2.0.0"), ("1.0.0", "1.0.0"), ("[1,2)", "1.5.0"), ("latest", "2.0.0")):
        config = {**named, **({} if wanted is None else {PLUGIN_VERSION: wanted})}
        found = validation.find_for(registry, config)
        assert (found.version, found.cls.plugin.location) == (version, str(tmp_path / version))  # type: ignore[attr-defined]
    assert [each.class_name for each in registry.plugins].count(OTHER) == 1
    with pytest.raises(BadRequest, match=r"Version 3 of a.OtherConnector is not installed; installed is 2.0.0, 1.5.0"):
        validation.find_for(registry, {**named, PLUGIN_VERSION: "3"})
    assert validation.find_nearest(registry, {**named, PLUGIN_VERSION: "3"}).version == "2.0.0"

    monkeypatch.setattr(JavaSourceConnector, "validate_by_java", lambda _self, _config: [])
    offered = ["2.0.0", "1.5.0", "1.0.0"]
    assert validated_version(registry, None) == validated_version(registry, "[1,2)") == ([], offered)
    assert validated_version(registry, "[2,1]")[0][0].startswith("[2,1] is neither a version nor a range")
    assert validated_version(registry, "3")[0] == [
        "Version 3 of Other is not installed; installed is 2.0.0, 1.5.0, 1.0.0"
    ]
