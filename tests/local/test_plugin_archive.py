"""A plugin's archive: unpacked whole below its own folder, or refused whole."""

import hashlib
import io
import shutil
import stat
import zipfile
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import pytest

from ringfence.cli import main
from ringfence.connectors.java.discovery import find_plugins
from ringfence.local.errors import LocalError
from ringfence.local.plugin_folders import scratch_beside
from ringfence.local.plugin_installer import Limits, install_archive

MANIFEST = "META-INF/services/org.apache.kafka.connect.source.SourceConnector"


@cache  # a zip holds the time at which it was made
def jar(version: str = "1.2") -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr(MANIFEST, "a.One")
        archive.writestr("META-INF/MANIFEST.MF", f"Implementation-Version: {version}\n")
    return content.getvalue()


def pack(path: Path, *more: tuple[str | zipfile.ZipInfo, bytes], connector: bool = True) -> Path:
    """A zip as plugins come: one folder with the connector's jar, and what the test adds."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        if connector:
            archive.writestr("one/lib/one.jar", jar())
        for name, content in more:
            archive.writestr(name, content)
    return path


def link(name: str, to: str) -> tuple[zipfile.ZipInfo, bytes]:
    entry = zipfile.ZipInfo(name)
    entry.external_attr = (stat.S_IFLNK | 0o777) << 16
    return entry, to.encode()


def require_refused(archive: Path, root: Path, why: str, limits: Limits | None = None) -> None:
    before = sorted(each.relative_to(root) for each in root.rglob("*"))
    with pytest.raises(LocalError, match=why):
        install_archive(archive, root / "path" / "plugins", limits or Limits())
    kept = sorted(each.relative_to(root) for each in root.rglob("*"))
    assert [str(each) for each in kept if each not in before] in (["path", "path/plugins"], []), "nothing of it stays"


def test_a_zip_and_a_jar_are_found_by_their_versions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "plugins"
    place = install_archive(pack(tmp_path / "one-1.2.zip", ("one/doc/README", b"read me")), folder)
    assert (place, (place / "one/doc/README").read_text()) == (folder / "one-1.2", "read me")
    (tmp_path / "one-2.0.jar").write_bytes(jar("2.0"))
    assert main(["plugins", "install", str(tmp_path / "one-2.0.jar"), "--into", str(folder)]) == 0
    digest = hashlib.sha256(jar("2.0")).hexdigest()
    assert capsys.readouterr().out.splitlines() == [str(folder / "one-2.0"), "a.One 2.0", f"{digest}  one-2.0.jar"]
    found = [(plugin.version, plugin.location) for plugin in find_plugins([str(folder)])]
    assert found == [("2.0", str(folder / "one-2.0")), ("1.2", str(place))]
    assert install_archive(tmp_path / "one-1.2.zip", folder) == place, "the very same archive, once more"
    with pytest.raises(LocalError, match="exists already: remove it first"):
        install_archive(pack(tmp_path / "one-1.2.zip", ("one/doc/README", b"read this")), folder)
    assert (place / "one/doc/README").read_text() == "read me"


def test_what_a_killed_installation_left_goes_with_the_next_one(tmp_path: Path) -> None:
    (tmp_path / ".ringfence-plugin-left" / "one").mkdir(parents=True)
    folder = tmp_path / "plugins"
    with scratch_beside(folder) as held:  # another process's, which is alive
        (held / "half").touch()
        install_archive(pack(tmp_path / "one-1.2.zip"), folder)
        assert (held / "half").exists()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["one-1.2.zip", "plugins"]


@pytest.mark.parametrize(
    "name", ["../evil", "one/../../evil", "/tmp/evil", "one/lib/../../../../evil", "..\\evil", "C:evil", "one/\x01evil"]
)
def test_a_name_that_leads_out_of_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    require_refused(pack(tmp_path / "one.zip", (name, b"evil")), tmp_path, "which leads out of it")


def test_a_link_is_refused_so_that_nothing_is_written_through_it(tmp_path: Path) -> None:
    archive = pack(tmp_path / "one.zip", link("one/out", str(tmp_path)), ("one/out/evil", b"evil"))
    require_refused(archive, tmp_path, "which is a link")
    assert not (tmp_path / "evil").exists()


def test_what_unpacks_to_too_much_is_refused_whatever_its_header_says(tmp_path: Path) -> None:
    few = Limits(unpacked=1_000_000, files=20)
    bomb = pack(tmp_path / "bomb.zip", ("one/zeros", bytes(20_000_000)))
    assert bomb.stat().st_size < 50_000
    require_refused(bomb, tmp_path, "unpacks to more than 1,000,000 bytes", few)
    many = pack(tmp_path / "many.zip", *((f"one/{number}", b"") for number in range(20)))
    require_refused(many, tmp_path, "contains 21 files; the maximum is 20", few)
    require_refused(pack(tmp_path / "large.zip"), tmp_path, "the maximum is 100", Limits(archive=100))


def test_what_is_no_plugin_is_refused_with_the_remedy(tmp_path: Path) -> None:
    require_refused(pack(tmp_path / "sink.zip", connector=False), tmp_path, "contains no source connector")
    (tmp_path / "broken.zip").write_bytes(pack(tmp_path / "whole.zip").read_bytes()[:200])
    require_refused(tmp_path / "broken.zip", tmp_path, "cannot be unpacked: .*Download it again")
    require_refused(pack(tmp_path / ".hidden.zip"), tmp_path, "is not a plugin: give a .zip, .jar or .whl")
    (tmp_path / "one.tar.gz").write_bytes(b"")
    require_refused(tmp_path / "one.tar.gz", tmp_path, "Unpack a tar.gz yourself")


def damage(path: Path) -> Path:
    """Its directory stays whole, the compressed manifest does not."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(MANIFEST, "a.Damaged\n" * 50)
    content = bytearray(path.read_bytes())
    start = 30 + len(MANIFEST)
    content[start : start + 8] = b"\xff" * 8
    path.write_bytes(bytes(content))
    return path


def test_a_damaged_jar_and_one_with_a_huge_manifest_hide_no_other_plugin(tmp_path: Path) -> None:
    (tmp_path / "good.jar").write_bytes(jar())
    damage(tmp_path / "damaged.jar")
    with zipfile.ZipFile(tmp_path / "huge.jar", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(MANIFEST, "a.Huge\n".ljust(3_000_000, "#") + "\na.Hidden")
    assert [plugin.class_name for plugin in find_plugins([str(tmp_path)])] == ["a.Huge", "a.One"]


def test_two_workers_with_one_folder_may_install_the_same_at_once(tmp_path: Path) -> None:
    folder, archive = tmp_path / "plugins", pack(tmp_path / "one-1.2.zip")
    for _ in range(20):
        with ThreadPoolExecutor(4) as workers:
            places = list(workers.map(lambda _: install_archive(archive, folder), range(4)))
        assert places == [folder / "one-1.2"] * 4
        assert sorted(each.name for each in tmp_path.iterdir()) == ["one-1.2.zip", "plugins"]
        shutil.rmtree(folder)
