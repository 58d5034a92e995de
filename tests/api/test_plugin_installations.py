"""Plugins for all workers: what the API takes, and what each worker makes of it, with a worker's own code."""

import base64
import hashlib
import io
import json
import zipfile
from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest
from django.test import Client

from ringfence.access.principal import Principal, Right, Verb
from ringfence.api.v1 import plugin_installations
from ringfence.audit.models import AuditEntry
from ringfence.connectors.java.discovery import find_plugins
from ringfence.engine.plugins.host import PluginHost
from ringfence.engine.plugins.installations import PluginInstallations
from ringfence.history.models import PluginInstallation, PluginPiece, WorkerInstallation, WorkerPlugins
from ringfence.local.plugin_installer import PluginInstaller
from ringfence.projection.models import Worker
from ringfence.web.new.catalog import describe_versions

ROUTE = "/api/v1/plugin-installations"
MANIFEST = "META-INF/services/org.apache.kafka.connect.source.SourceConnector"


@cache  # a zip holds the time at which it was made
def jar(version: str = "1.2", manifest: str = MANIFEST) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr(manifest, "a.One")
        archive.writestr("META-INF/MANIFEST.MF", f"Implementation-Version: {version}\n")
    return content.getvalue()


class Host:
    """What a worker's plugin processes find in its folder."""

    def __init__(self, folder: Path) -> None:
        self.installed_plugins = self
        self._folder = folder

    def read(self) -> object:
        return self.plugins()

    def have_jars(self) -> bool:
        return bool(find_plugins([str(self._folder)]))

    def plugins(self) -> list[dict[str, object]]:
        found: dict[str, list[str]] = {}
        for each in find_plugins([str(self._folder)]):
            found.setdefault(each.class_name, []).append(each.version)
        return [{"class": name, "versions": versions} for name, versions in found.items()]


def join(name: str, folder: Path, *, installs: bool = True) -> PluginInstallations:
    """A live worker with a folder of its own."""
    Worker.objects.create(worker=name, incarnation=f"{name}-1", mode="enabled", slots=1, version="1", since_ms=1)
    host = cast(PluginHost, Host(folder))
    installer = PluginInstaller(folder, prepare=lambda _mirror: None) if installs else None
    worker = PluginInstallations(name, f"{name}-1", host, installer)
    worker.tell_versions()
    return worker


def post(client: Client, address: str, **body: object) -> Any:
    return client.post(address, json.dumps(body), content_type="application/json")


def announce(client: Client, content: bytes, name: str = "one-1.2.jar", **changes: object) -> Any:
    told = {"plugin": name, "size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    return post(client, ROUTE, **{**told, **changes})


def send(client: Client, number: int, start: int, content: bytes) -> Any:
    return post(client, f"{ROUTE}/{number}/bytes", start=start, content=base64.b64encode(content).decode())


def upload(client: Client, content: bytes, name: str = "one-1.2.jar") -> int:
    number: int = announce(client, content, name).json()["id"]
    half = len(content) // 2
    assert send(client, number, 0, content[:half]).json()["state"] == "receiving"
    assert send(client, number, half, content[half:]).status_code == 200
    return number


def test_a_file_in_pieces_is_installed_on_all_workers_and_on_one_that_comes_later(
    client: Client, tmp_path: Path
) -> None:
    first, second = join("w1", tmp_path / "w1"), join("w2", tmp_path / "w2")
    number = upload(client, jar())
    told = client.get(f"{ROUTE}/{number}").json()
    assert [(each["worker"], each["state"]) for each in told["workers"]] == [("w1", "waiting"), ("w2", "waiting")]
    assert first.install_next()
    assert client.get(f"{ROUTE}/{number}").json()["state"] == "running"
    assert second.install_next()
    third = join("w3", tmp_path / "w3")
    assert third.install_next()
    assert not third.install_next()
    told = client.get(f"{ROUTE}/{number}").json()
    assert (told["state"], told["differs"]) == ("done", False)
    for each in told["workers"]:
        assert each["connectors"] == {"a.One": "1.2"}
        assert each["files"] == {"one-1.2.jar": hashlib.sha256(jar()).hexdigest()}
        assert (tmp_path / each["worker"] / "one-1.2" / "one-1.2.jar").read_bytes() == jar()
    entry = AuditEntry.objects.get(action="install plugin")
    assert hashlib.sha256(jar()).hexdigest() in entry.after
    done = AuditEntry.objects.filter(action="plugin installed").order_by("pk")
    assert [(each.via, each.outcome) for each in done] == [(f"worker w{number}", "done") for number in (1, 2, 3)]
    assert json.loads(done[0].after)["files"] == {"one-1.2.jar": hashlib.sha256(jar()).hexdigest()}


def test_a_worker_that_was_killed_in_the_middle_begins_again(client: Client, tmp_path: Path) -> None:
    worker = join("w1", tmp_path / "w1")
    number = upload(client, jar())
    WorkerInstallation.objects.create(installation_id=number, worker="w1", started_ms=1)
    (tmp_path / ".ringfence-plugin-killed").mkdir()
    assert worker.install_next()
    assert client.get(f"{ROUTE}/{number}").json()["state"] == "done"
    assert [each.name for each in tmp_path.iterdir()] == ["w1"]


def test_bytes_that_are_not_what_was_announced_are_forgotten(client: Client, tmp_path: Path) -> None:
    worker = join("w1", tmp_path / "w1")
    content = jar()
    number = announce(client, content).json()["id"]
    answer = send(client, number, 0, content[:-1] + b"x")
    assert (answer.status_code, "SHA-256" in answer.json()["detail"]) == (400, True)
    assert not PluginInstallation.objects.exists()
    assert not PluginPiece.objects.exists()
    assert not worker.install_next()


def test_bytes_that_changed_in_the_database_are_not_installed(client: Client, tmp_path: Path) -> None:
    worker = join("w1", tmp_path / "w1")
    number = upload(client, jar())
    piece = PluginPiece.objects.filter(installation=number).first()
    assert piece is not None
    PluginPiece.objects.filter(pk=piece.pk).update(data=bytes(len(piece.data)))
    assert worker.install_next()
    (share,) = client.get(f"{ROUTE}/{number}").json()["workers"]
    assert (share["state"], "SHA-256" in share["error"]) == ("failed", True)
    assert not list((tmp_path / "w1").glob("*"))


def test_pieces_come_in_order_and_none_twice(client: Client, tmp_path: Path) -> None:
    join("w1", tmp_path / "w1")
    content = jar()
    number = announce(client, content).json()["id"]
    assert send(client, number, 5, content[5:]).status_code == 409
    assert send(client, number, 0, content[:5]).status_code == 200
    assert send(client, number, 0, content[:5]).status_code == 409
    assert send(client, number, 5, content[5:] + b"more").status_code == 400
    assert post(client, f"{ROUTE}/{number}/bytes", start=5, content="?").status_code == 400
    assert send(client, number, 5, content[5:]).json()["state"] == "running"
    assert send(client, number, len(content), b"x").status_code == 409


@pytest.mark.parametrize("name", ["../one.jar", "one.tar.gz", "one", ".jar", "o ne.jar", "one.jar\n", "a/b.zip"])
def test_a_file_that_cannot_be_a_plugin_is_refused(client: Client, tmp_path: Path, name: str) -> None:
    join("w1", tmp_path / "w1")
    if name != "one.jar\n":  # spaces around a field are taken off
        assert announce(client, jar(), name).status_code == 400


@pytest.mark.parametrize("name", ["a:b", "a:b:c:d", "a:b:1 -D", "../a:b:1", "file:///x:b:1"])
def test_what_are_no_coordinates_is_refused(client: Client, tmp_path: Path, name: str) -> None:
    join("w1", tmp_path / "w1")
    assert post(client, ROUTE, plugin=name).status_code == 400


def test_too_large_or_half_announced_is_refused(client: Client, tmp_path: Path) -> None:
    join("w1", tmp_path / "w1")
    assert announce(client, jar(), size=plugin_installations.MOST_BYTES + 1).status_code == 400
    assert announce(client, jar(), sha256="A" * 64).status_code == 400
    assert post(client, ROUTE, plugin="one.jar", size=3).status_code == 400
    for _ in range(plugin_installations.MOST_UNFINISHED):
        assert announce(client, jar()).status_code == 201
    assert announce(client, jar()).status_code == 409


def test_without_the_worker_setting_nothing_is_taken(client: Client, tmp_path: Path) -> None:
    worker = join("w1", tmp_path / "w1", installs=False)
    answer = post(client, ROUTE, plugin="a:b:1")
    assert (answer.status_code, "plugin.install.path" in answer.json()["detail"]) == (409, True)
    PluginInstallation.objects.create(plugin="a:b:1", ready=True, started_ms=1)
    assert not worker.install_next(), "not even what somebody wrote into the database"


def test_a_plugin_without_a_connector_fails_with_the_reason_and_leaves_nothing(client: Client, tmp_path: Path) -> None:
    worker = join("w1", tmp_path / "w1")
    number = upload(client, jar(manifest="META-INF/other"))
    assert worker.install_next()
    told = client.get(f"{ROUTE}/{number}").json()
    assert told["state"] == "failed"
    assert "contains no source connector" in told["workers"][0]["error"]
    entry = AuditEntry.objects.get(action="plugin installed")
    assert (entry.outcome, "contains no source connector" in entry.message) == ("failed", True)
    assert not list((tmp_path / "w1").glob("*"))
    page = client.get("/ui/plugins").content.decode()
    assert "contains no source connector" in page
    assert not worker.install_next(), "not again by itself"
    assert post(client, f"{ROUTE}/{number}/retry").status_code == 202
    assert client.get(f"{ROUTE}/{number}").json()["state"] == "running"
    assert worker.install_next()
    assert client.post(f"/ui/plugins/{number}/retry").status_code == 302
    assert worker.install_next()


def test_a_search_waits_for_workers_that_are_starting(client: Client, tmp_path: Path) -> None:
    """They report their plugins some seconds after they take commands."""
    Worker.objects.create(worker="w1", incarnation="w1-1", mode="enabled", slots=1, version="1", since_ms=1)
    found = client.get("/ui/new?q=mongodb").content.decode()
    assert "The workers are starting: it can be installed in a moment." in " ".join(found.split())
    assert 'hx-get="/ui/new?q=mongodb"' in found, "it looks again by itself"
    refusal = post(client, ROUTE, plugin="io.debezium:debezium-connector-mongodb:3.5.0.Final")
    assert (refusal.status_code, "Try again in a moment" in refusal.content.decode()) == (409, True)
    Worker.objects.all().delete()
    join("w1", tmp_path / "w1")
    found = client.get("/ui/new?q=mongodb").content.decode()
    assert "Install and create" in found
    assert 'hx-trigger="load' not in found


def test_the_form_of_the_connector_follows_the_installation(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = join("w1", tmp_path / "w1")
    monkeypatch.setattr("ringfence.local.plugin_installer.install", lambda _plugin, folder, _mirror: folder)
    class_name = "io.debezium.connector.mongodb.MongoDbConnector"
    asked = {"plugin": "io.debezium:debezium-connector-mongodb:3.5.0.Final", "class": class_name}
    address = client.post("/ui/plugins", asked)["Location"]
    page = client.get(address).content.decode()
    assert "The form of MongoDB changes, by Debezium follows when it is installed." in page
    part = client.get(address, headers={"HX-Request": "true"})
    assert "HX-Redirect" not in part
    assert address.replace("&", "&amp;") in part.content.decode(), "it looks again at the same address"
    assert worker.install_next()
    assert client.get(address, headers={"HX-Request": "true"})["HX-Redirect"] == f"/ui/new?class={class_name}"
    assert client.get(address).status_code == 200, "the way back does not lead forward"


def test_taken_back_it_stays_where_it_is_and_comes_nowhere_else(client: Client, tmp_path: Path) -> None:
    first = join("w1", tmp_path / "w1")
    number = upload(client, jar())
    assert first.install_next()
    assert client.delete(f"{ROUTE}/{number}").status_code == 204
    assert client.get(f"{ROUTE}/{number}").status_code == 404
    assert not join("w2", tmp_path / "w2").install_next()
    assert (tmp_path / "w1" / "one-1.2").is_dir()


def test_other_files_under_the_same_name_are_pointed_out(client: Client) -> None:
    row = PluginInstallation.objects.create(plugin="a:b:1", ready=True, started_ms=1)
    for worker in ("w1", "w2"):
        report = json.dumps({"folder": "f", "connectors": {}, "files": {"b.jar": worker}})
        WorkerInstallation.objects.create(installation=row, worker=worker, state="done", report=report, started_ms=1)
    assert client.get(f"{ROUTE}/{row.pk}").json()["differs"]
    assert "different files" in client.get("/ui/plugins").content.decode()


def test_every_permission_but_install_plugins_is_not_enough(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    join("w1", tmp_path / "w1")
    number = announce(client, jar()).json()["id"]
    asked = [
        ("get", ROUTE),
        ("post", ROUTE),
        ("get", f"{ROUTE}/{number}"),
        ("delete", f"{ROUTE}/{number}"),
        ("post", f"{ROUTE}/{number}/bytes"),
        ("get", "/ui/plugins"),
        ("post", "/ui/plugins"),
        ("post", f"/ui/plugins/{number}/take-back"),
        ("post", f"/ui/plugins/{number}/retry"),
        ("post", f"{ROUTE}/{number}/retry"),
    ]
    others = frozenset(Verb) - {Verb.INSTALL_PLUGINS}
    some = Right(frozenset({Verb.INSTALL_PLUGINS}), "orders-*")
    mallory = Principal("mallory", "token", (Right(others, "*"), some))
    monkeypatch.setattr("ringfence.middleware.identify", lambda request: mallory)
    for method, address in asked:
        answer = getattr(client, method)(address, content_type="application/json")
        assert answer.status_code == 403, (method, address)
    assert PluginInstallation.objects.filter(pk=number).exists()


def test_versions_by_worker_are_those_of_live_workers(client: Client, tmp_path: Path) -> None:
    first = join("w1", tmp_path / "w1")
    join("w2", tmp_path / "w2")
    WorkerPlugins.objects.create(worker="gone", incarnation="gone-1", plugins="{}", time_ms=1)
    upload(client, jar())
    assert first.install_next()
    first.tell_versions()
    found = {each["worker"]: each["plugins"] for each in client.get("/api/v1/plugin-versions").json()}
    assert found == {"w1": {"a.One": ["1.2"]}, "w2": {}}
    assert describe_versions("a.One", found) == "w1: 1.2; w2: not installed"
    assert describe_versions("a.Two", found) == ""
