"""Plugins that are fetched from Maven Central, and installs that are killed."""

import os
import signal
import subprocess
import sys
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from ringfence.cli import main
from ringfence.connectors.java.discovery import find_plugins
from ringfence.engine.plugins.installations import InstallFailed
from ringfence.engine.spark.connector_limits import let_go
from ringfence.local.errors import LocalError
from ringfence.local.jars import Coordinate, resolve
from ringfence.local.plugin_installer import PluginInstaller, install_from_maven, installer_of, parse_coordinates
from tests.support.java_plugins import FILE_STREAM, FILE_STREAM_CLASS


def test_a_plugin_is_installed_whole_and_once(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "plugins"
    coordinate = parse_coordinates(f"{FILE_STREAM.group}:{FILE_STREAM.artifact}:{FILE_STREAM.version}")
    assert coordinate == FILE_STREAM
    place = install_from_maven(coordinate, folder)
    assert install_from_maven(coordinate, folder) == place
    assert [plugin.class_name for plugin in find_plugins([str(folder)])] == [FILE_STREAM_CLASS]
    assert [each.name for each in folder.parent.iterdir()] == ["plugins"], "nothing else is left"


@pytest.mark.parametrize("text", ["connect-file", "a:b", "a:b:c:d", "a:../b:1", "a:b:1 2"])
def test_what_is_no_coordinate_is_refused(text: str) -> None:
    with pytest.raises(LocalError, match="write group:artifact:version"):
        parse_coordinates(text)


def test_what_holds_no_source_connector_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "path" / "plugins"
    library = Coordinate("org.apache.kafka", "connect-api", FILE_STREAM.version)
    with pytest.raises(LocalError, match=r"connect-api:[\d.]+ contains no source connector"):
        install_from_maven(library, folder)
    assert [*folder.iterdir()] == []
    assert [*folder.parent.iterdir()] == [folder]


class Mirror(BaseHTTPRequestHandler):
    """An empty Maven repository."""

    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.send_error(404)

    do_HEAD = do_GET  # noqa: N815 - the handler's name

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.thorough
def test_a_worker_fetches_from_the_mirror_that_it_was_started_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "environ", {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")})
    with ThreadingHTTPServer(("127.0.0.1", 0), Mirror) as mirror:
        thread = threading.Thread(target=mirror.serve_forever)
        thread.start()
        monkeypatch.setenv("RINGFENCE_MAVEN_URL", f"http://127.0.0.1:{mirror.server_port}/maven/")
        installer = installer_of({"plugin.install.path": str(tmp_path / "plugins")})
        let_go(os.environ)
        try:
            assert installer is not None
            plugin = f"{FILE_STREAM.group}:{FILE_STREAM.artifact}:{FILE_STREAM.version}"
            with pytest.raises(InstallFailed, match=r"Could not fetch org\.apache\.kafka:connect-runtime"):
                installer.fetch(plugin)
            with_jars = PluginInstaller(tmp_path / "plugins", installer._mirror, prepare=lambda _mirror: None)
            with pytest.raises(InstallFailed, match=r"Could not fetch org\.apache\.kafka:connect-file"):
                with_jars.fetch(plugin)
        finally:
            mirror.shutdown()
            thread.join()
    for artifact in ("connect-runtime", "connect-file"):
        assert [path for path in Mirror.asked if path.startswith(f"/maven/org/apache/kafka/{artifact}/")]


KILLED = """
import resource, signal, sys
from ringfence.cli import main
import ringfence.local.plugin_installer
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
main(["plugins", "install", *sys.argv[1:]])
"""
"""The kernel ends it in the middle of a file: the first byte above the limit."""


@pytest.mark.parametrize("way", ["maven", "zip"])
def test_an_install_that_is_killed_leaves_no_plugin(tmp_path: Path, way: str) -> None:
    folder = tmp_path / "path" / "plugins"
    coordinate = f"{FILE_STREAM.group}:{FILE_STREAM.artifact}:{FILE_STREAM.version}"
    jars = resolve(FILE_STREAM.artifact, [FILE_STREAM])
    archive = tmp_path / "one.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        for each in jars.iterdir():
            packed.write(each, f"one/{each.name}")
    plugin = coordinate if way == "maven" else str(archive)
    ended = subprocess.run(
        [sys.executable, "-B", "-c", KILLED, plugin, "--into", str(folder)], timeout=120, check=False
    )
    assert ended.returncode == -signal.SIGXFSZ
    assert [each for each in folder.parent.iterdir() if each != folder], "it was at work"
    assert [*folder.iterdir()] == []
    assert main(["plugins", "install", plugin, "--into", str(folder)]) == 0
    assert [plugin.class_name for plugin in find_plugins([str(folder)])] == [FILE_STREAM_CLASS]


KILLED_UPLOAD = """
import resource, signal, sys
from pathlib import Path
from ringfence.local.plugin_installer import PluginInstaller
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
PluginInstaller(Path(sys.argv[1]), prepare=lambda _mirror: None).unpack("one.zip", "", [b"x" * 2000])
"""


def test_an_upload_whose_worker_is_killed_is_removed_by_the_next_install(tmp_path: Path) -> None:
    folder, temporary = tmp_path / "path" / "plugins", tmp_path / "temporary"
    temporary.mkdir()
    environment = {**os.environ, "TMPDIR": str(temporary)}
    command = [sys.executable, "-B", "-c", KILLED_UPLOAD, str(folder)]
    ended = subprocess.run(command, env=environment, timeout=120, check=False)
    assert ended.returncode == -signal.SIGXFSZ
    assert [each for each in folder.parent.iterdir() if each != folder], "it was at work"
    install_from_maven(FILE_STREAM, folder)
    assert [*folder.parent.iterdir(), *temporary.iterdir()] == [folder]
