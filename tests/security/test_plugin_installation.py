"""Packages that try to run code, or to come from elsewhere, while pip installs a plugin."""

import re
import sys
import tarfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from subprocess import run

import pytest

from ringfence.local import guarded_pip
from ringfence.local.errors import LocalError
from ringfence.local.plugin_folders import read_contents
from ringfence.local.plugin_installer import install_package, install_wheel, parse_coordinates
from tests.support.loopback_api import Answer, LoopbackApi, Request
from tests.support.recording_server import RecordingServer
from tests.support.wheels import make_plugin, make_wheel, use_index


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return use_index(tmp_path / "index", monkeypatch, "1.0")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "path" / "plugins"


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    return tmp_path / "ran"


@pytest.fixture
def source_archive(tmp_path: Path, trap: Path) -> Path:
    """A package that is not a wheel. Its setup.py, which a build runs, leaves the trap."""
    (tmp_path / "setup.py").write_text(f"open({str(trap)!r}, 'w')\n")
    path = tmp_path / "evildep-1.0.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        archive.add(tmp_path / "setup.py", "evildep-1.0/setup.py")
    return path


@pytest.fixture
def archive_with_a_backend(tmp_path: Path, trap: Path) -> Path:
    """The same with a build backend of its own, which needs no other package."""
    (tmp_path / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    )
    (tmp_path / "backend.py").write_text(f"open({str(trap)!r}, 'w')\n")
    path = tmp_path / "evildep-2.0.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name in ("pyproject.toml", "backend.py"):
            archive.add(tmp_path / name, f"evildep-2.0/{name}")
    return path


@pytest.mark.parametrize("depth", [1, 3])
def test_a_dependency_with_an_address_is_not_built(
    index: Path, folder: Path, source_archive: Path, trap: Path, depth: int
) -> None:
    needs = f"evildep @ {source_archive.as_uri()}"
    for level in range(1, depth):
        make_wheel(index, f"level{level}", "1.0", {f"level{level}.py": ""}, [needs])
        needs = f"level{level}==1.0"
    make_plugin(index, "red", "1.2", "1.0", needs)
    with pytest.raises(LocalError, match="requires evildep from an address of its own"):
        install_package("red-source==1.2", folder)
    assert not trap.exists()
    assert not [*folder.iterdir()]


def test_an_uploaded_wheel_may_not_name_addresses_either(
    index: Path, folder: Path, tmp_path: Path, archive_with_a_backend: Path, trap: Path
) -> None:
    wheel = make_plugin(tmp_path / "up", "red", "1.2", "1.0", f"evildep @ {archive_with_a_backend.as_uri()}")
    with pytest.raises(LocalError, match="require it by name and version"):
        install_wheel(wheel, folder)
    assert not trap.exists()


@pytest.mark.parametrize("form", ["http://{}/evildep-1.0-py3-none-any.whl", "git+http://{}/evildep.git"])
def test_no_address_of_a_package_is_asked(
    index: Path, folder: Path, recording_server: RecordingServer, form: str
) -> None:
    address = form.format(f"127.0.0.1:{recording_server.port}")
    make_plugin(index, "red", "1.2", "1.0", f"evildep @ {address}")
    with pytest.raises(LocalError, match="Only the worker's index is used"):
        install_package("red-source==1.2", folder)
    assert recording_server.asked == []


def test_pip_starts_no_process_that_could_build(
    tmp_path: Path, source_archive: Path, archive_with_a_backend: Path, trap: Path
) -> None:
    """The second line of defence: without it, this command builds both."""
    pip = find_spec("pip")
    assert pip is not None
    assert pip.origin is not None
    command = [sys.executable, "-I", guarded_pip.__file__, str(Path(pip.origin).parent.parent), "install"]
    command += ["--no-index", "--no-build-isolation", "--target", str(tmp_path / "target")]
    for archive in (source_archive, archive_with_a_backend):
        done = run([*command, str(archive)], capture_output=True, text=True, check=False)
        assert done.returncode != 0
        assert "only wheels are installed" in done.stderr
    assert not trap.exists()


def test_without_the_part_that_is_patched_pip_does_not_start(tmp_path: Path, trap: Path) -> None:
    (tmp_path / "pip").mkdir()
    (tmp_path / "pip" / "__init__.py").write_text("")
    (tmp_path / "pip" / "__main__.py").write_text(f"open({str(trap)!r}, 'w')\n")
    command = [sys.executable, "-I", guarded_pip.__file__, str(tmp_path), "install", "red"]
    done = run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "pip._vendor" in done.stderr
    assert not trap.exists()


class _ChangingIndex(LoopbackApi):
    """Serves one plugin, and another one under the same name and version from its second page on."""

    protocol = "HTTP/1.0"

    def __init__(self, first: Path, second: Path) -> None:
        self._pages = 0
        self._name = first.name
        self._wheels = {"/first/": first, "/second/": second}
        super().__init__()

    def respond(self, request: Request) -> Answer:
        place = re.fullmatch(r"(/\w+/)[^/]+\.whl", request.path)
        if place:
            return Answer(self._wheels[place[1]].read_bytes(), "text/html")
        if "red-source" not in request.path:
            return Answer(b"", "text/html")
        self._pages += 1
        prefix = "/first/" if self._pages == 1 else "/second/"
        return Answer(f'<a href="{prefix}{self._name}">{self._name}</a>'.encode(), "text/html")


@pytest.fixture
def changing_index(index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[_ChangingIndex]:
    first = make_plugin(tmp_path / "first", "red", "1.2", "1.0")
    second = make_plugin(tmp_path / "second", "red", "1.2", "1.0", "shade>0")
    server = _ChangingIndex(first, second)
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", server.url)
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    yield server
    server.close()


def test_what_was_resolved_is_what_is_installed(changing_index: _ChangingIndex, folder: Path) -> None:
    with pytest.raises(LocalError, match=r"(?i)do not match the hashes"):
        install_package("red-source==1.2", folder)
    assert not [*folder.iterdir()]


def test_the_list_of_files_has_their_hashes(index: Path, folder: Path) -> None:
    make_plugin(index, "red", "1.2", "1.0")
    assert all(
        re.fullmatch("[0-9a-f]{64}", sha)
        for sha in read_contents(install_package("red-source==1.2", folder)).files.values()
    )


@pytest.mark.parametrize(
    "text",
    [
        "io.debezium:debezium-connector-postgres:latest.release",
        "io.debezium:debezium-connector-postgres:LATEST",
        "io.debezium:debezium-connector-postgres:3.+",
        "..:debezium-connector-postgres:3.5.0.Final",
        "io.debezium:..:3.5.0.Final",
        "io..debezium:x:1.0",
        "io.debezium:x:..",
        ":x:1.0",
    ],
)  # fmt: skip
def test_maven_coordinates_name_one_version_of_one_artifact(text: str) -> None:
    with pytest.raises(LocalError, match="is not a Maven coordinate"):
        parse_coordinates(text)


@pytest.mark.parametrize(
    "text",
    ["io.debezium:debezium-connector-postgres:3.5.0.Final", "org.apache.kafka:kafka_2.13:4.3.0", "a-b:c:v1.0+build.7"],
)
def test_usual_maven_coordinates_are_understood(text: str) -> None:
    assert parse_coordinates(text).version == text.rpartition(":")[2]
