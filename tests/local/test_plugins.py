"""Plugins that are fetched from Maven Central."""

from pathlib import Path

import pytest

from ringfence.connectors.java.discovery import find_plugins
from ringfence.local.errors import LocalError
from ringfence.local.plugins import install, parse
from tests.support.java_plugins import FILE_STREAM, FILE_STREAM_CLASS


def test_a_plugin_is_installed_whole_and_once(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "plugins"
    coordinate = parse(f"{FILE_STREAM.group}:{FILE_STREAM.artifact}:{FILE_STREAM.version}")
    assert coordinate == FILE_STREAM
    place = install(coordinate, folder)
    assert install(coordinate, folder) == place
    assert [plugin.class_name for plugin in find_plugins([str(folder)])] == [FILE_STREAM_CLASS]
    assert [each.name for each in folder.parent.iterdir()] == ["plugins"], "nothing else is left"


@pytest.mark.parametrize("text", ["connect-file", "a:b", "a:b:c:d", "a:../b:1", "a:b:1 2"])
def test_what_is_no_coordinate_is_refused(text: str) -> None:
    with pytest.raises(LocalError, match="write group:artifact:version"):
        parse(text)
