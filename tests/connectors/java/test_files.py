"""The configuration of a Java connector names files below `file.roots` only, whatever the setting is called."""

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from ringfence.connectors.api import ConnectorError
from ringfence.connectors.java import runtime
from ringfence.connectors.java.files import find_refused_files
from ringfence.connectors.java.processes import JavaProcess
from ringfence.connectors.java.task import java_task_class
from ringfence.connectors.sdk import worker_limits
from ringfence.connectors.sdk.worker_limits import WorkerLimits
from ringfence.engine.plugins import PluginHost
from ringfence.engine.plugins.calls import ValidateConfig
from tests.support.java_plugins import FILE_STREAM, FILE_STREAM_CLASS, FILE_STREAM_TASK, plugin_path, runtime_of
from tests.support.waiting import eventually

TEXT = "org.apache.kafka.connect.storage.StringConverter"
HOSTS = "/etc/hosts"
OUT = "../" * 12


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "open"
    folder.mkdir()
    (folder / "link").symlink_to(HOSTS)
    (folder / "lines").write_text("1\n2\n")
    monkeypatch.setattr(worker_limits, "_current", [WorkerLimits(roots=(str(folder),))])
    return folder


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("file", "/no/such/file"),
        ("file", f"{OUT}etc/hosts"),
        ("file", "ROOT/link"),
        ("file", "ROOT/../secret"),
        ("file", "~/.ssh/id_rsa"),
        ("schema.history.internal.file.filename", "/var/lib/history"),
        ("database.ssl.keystore", f"file:{HOSTS}"),
        ("input.directory", "ROOT,/srv"),
        ("transforms.t.template.location", "/srv/t"),
        ("anything", HOSTS),
        ("anything", f"a, {HOSTS}"),
        ("anything", f"./{OUT}etc/hosts"),
        ("connection.url", f"jdbc:sqlite:{HOSTS}"),
        ("connection.url", f"jdbc:postgresql://db/shop?user=a&sslkey={HOSTS}&ssl=true"),
        ("sasl.jaas.config", f'Krb5LoginModule required keyTab="{HOSTS}" principal="x";'),
        ("input.path", "/etc"),
    ],
)
def test_what_leads_out_of_the_roots_is_refused(root: Path, name: str, value: str) -> None:
    found = find_refused_files({"topic": "t", name: value.replace("ROOT", str(root))})
    assert list(found) == [name]
    assert "file.roots" in found[name]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("file", "ROOT/lines"),
        ("file", "ROOT/not-there-yet"),
        ("file", "lines"),  # in the Java process's own folder, where nothing is
        ("file", "s3://bucket/etc/hosts"),
        ("input.path", "ROOT"),
        ("connection.url", "jdbc:postgresql://db.example.com:5432/shop"),
        ("http.path", "/v1/items"),
        ("rabbitmq.virtual.host", "/"),
        ("mqtt.topics", "/sensors/+/temperature"),
        ("table.include.list", "public.orders"),
        ("transforms.route.regex", "(.*)/(.*)"),
    ],
)
def test_what_names_no_file_elsewhere_is_not(root: Path, name: str, value: str) -> None:
    assert find_refused_files({name: value.replace("ROOT", str(root))}) == {}


def test_without_roots_no_file_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_limits, "_current", [WorkerLimits()])
    assert "this worker does not allow connectors to read files" in find_refused_files({"file": "/srv/lines"})["file"]


@pytest.fixture
def plugins(tmp_path: Path) -> Iterator[Path]:
    before = list(runtime._current)
    runtime.declare(runtime_of(plugin_path(tmp_path, FILE_STREAM)))
    yield tmp_path / "plugins"
    runtime._current[:] = before


@pytest.mark.slow
def test_kafkas_file_source_is_refused_at_validation_and_at_its_start(root: Path, plugins: Path) -> None:
    """Java itself would open it: it never gets so far, neither at validation nor where a task is given such a file."""
    config = {"name": "f", "connector.class": FILE_STREAM_CLASS, "topic": "t", "tasks.max": "1"}
    config |= {"key.converter": TEXT, "value.converter": TEXT}
    java = runtime.current()
    assert java is not None
    told = {
        runtime.ENVIRONMENT: json.dumps(java.as_settings()),
        worker_limits.ENVIRONMENT: json.dumps(worker_limits.current().as_settings()),
    }
    host = PluginHost(environment=told, call_processes=1, call_seconds=60)
    try:
        for file, refused in ((HOSTS, True), (str(root / "link"), True), (str(root / "lines"), False)):
            body = host.ask(ValidateConfig(FILE_STREAM_CLASS, {**config, "file": file}, exactly_once=True))
            errors = {
                entry["value"]["name"]: entry["value"]["errors"]
                for entry in json.loads(json.dumps(body))["configs"]
                if entry["value"]["errors"]
            }
            assert list(errors) == (["file"] if refused else []), errors
    finally:
        host.close()
    task = java_task_class(FILE_STREAM_TASK)()
    with pytest.raises(ConnectorError, match=r"file: File /etc/hosts cannot be read: it is not below a folder"):
        task.start({**config, "file": HOSTS})
    assert task._process is None, "no JVM was started for it"


@pytest.mark.slow
def test_a_java_process_has_an_empty_folder_of_its_own(plugins: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As its working directory and as its home, gone when it ends; and nothing of the worker's environment."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "of the worker")
    java = runtime.current()
    assert java is not None
    process = JavaProcess(java, lambda _connector: None)
    try:
        eventually(lambda: process.ready, 60, "the JVM")
        seen = psutil.Process(process.pid)
        folder = seen.cwd()
        assert Path(folder).parent == Path(tempfile.gettempdir()).resolve()
        assert os.listdir(folder) == []
        assert seen.environ()["HOME"] == folder
        assert f"-Duser.home={folder}" in seen.cmdline()
        assert "AWS_SECRET_ACCESS_KEY" not in seen.environ()
    finally:
        process.close(5)
    eventually(lambda: not Path(folder).exists(), 30, "its folder is removed")
