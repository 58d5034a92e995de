from importlib.metadata import EntryPoint

import pytest

from ringfence.connectors.api import ConfigDef, ConfigType, ConnectorError, SourceConnector
from ringfence.connectors.builtin.file_stream.connector import FileStreamSourceConnector
from ringfence.connectors.builtin.file_stream.task import FileStreamSourceTask
from ringfence.connectors.builtin.verifiable.connector import VerifiableSourceConnector
from ringfence.connectors.plugins import PluginRegistry, UnknownConnector, class_path, describe, load_task_class


@pytest.mark.parametrize(
    "name",
    [
        "FileStreamSource",
        "FileStreamSourceConnector",
        "org.apache.kafka.connect.file.FileStreamSourceConnector",
        "connectors.builtin.file_stream.connector.FileStreamSourceConnector",
    ],
)
def test_a_connector_is_found_by_each_of_its_names(name: str) -> None:
    assert PluginRegistry.discover().find(name).cls is FileStreamSourceConnector


def test_an_unknown_name_lists_what_there_is() -> None:
    with pytest.raises(
        UnknownConnector, match=r"which name matches Nope, available connectors are: .*FileStreamSource"
    ):
        PluginRegistry.discover().find("Nope")


def test_a_name_that_two_connectors_share_is_refused_but_whole_names_work() -> None:
    first = describe(FileStreamSourceConnector, "Same")
    registry = PluginRegistry([first, describe(VerifiableSourceConnector, "Same")])
    assert registry.find(first.class_name) is first
    with pytest.raises(UnknownConnector, match="More than one connector matches alias Same"):
        registry.find("Same")


def test_a_plugin_that_cannot_be_loaded_takes_none_down() -> None:
    points = [
        EntryPoint("Broken", "no_such_module_anywhere:X", "ringfence.connectors"),
        EntryPoint("NoConnector", "builtins:int", "ringfence.connectors"),
        EntryPoint("Fine", class_path(FileStreamSourceConnector).replace(".FileStreamS", ":FileStreamS"), "x"),
    ]
    registry = PluginRegistry.discover(points)
    assert registry.find("Fine").version == "1.0.0"
    assert set(registry.broken) == {"Broken", "NoConnector"}
    with pytest.raises(UnknownConnector, match="installed but cannot be loaded: ModuleNotFoundError"):
        registry.find("Broken")


def test_a_task_class_is_loaded_by_its_path() -> None:
    assert load_task_class(class_path(FileStreamSourceTask)) is FileStreamSourceTask
    with pytest.raises(ImportError, match="Install the connector's package here"):
        load_task_class("nowhere.to.be.Found")
    with pytest.raises(TypeError, match="not a subclass"):
        load_task_class("builtins.int")


def test_a_connector_with_one_task_needs_no_method() -> None:
    class Numbers(SourceConnector):
        own_settings = ConfigDef().define("topic", ConfigType.STRING)
        task_type = FileStreamSourceTask

    connector = Numbers()
    connector.start({"topic": "numbers"})
    assert connector.task_configs(4) == [{"topic": "numbers"}]
    assert [*connector.config_def().keys] == ["topic"]
    assert connector.task_class() is FileStreamSourceTask


def test_a_connector_without_a_task_class_says_so() -> None:
    class Nothing(SourceConnector):
        pass

    with pytest.raises(ConnectorError, match="Nothing has no task class: set `task_type`"):
        Nothing.task_class()
