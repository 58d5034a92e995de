"""`plugin.path`, without a JVM."""

import zipfile
from pathlib import Path

import pytest

from ringfence.connectors.builtin.file_stream.connector import FileStreamSourceConnector
from ringfence.connectors.java import discovery, runtime
from ringfence.connectors.java.connector import JavaSourceConnector
from ringfence.connectors.java.discovery import find_plugins, find_signature
from ringfence.connectors.plugins import PluginRegistry

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


def test_of_two_versions_the_newer_one(tmp_path: Path) -> None:
    jar(tmp_path / "new" / "a-1.10.0.jar", "a.A")
    jar(tmp_path / "old" / "a-1.9.0.jar", "a.A")
    assert [each.version for each in find_plugins([str(tmp_path)])] == ["1.10.0"]


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
