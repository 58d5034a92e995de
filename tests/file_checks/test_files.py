"""`ringfence check` on files that people bring: each starts, or has a line for each thing to change."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringfence.cli import main
from ringfence.connectors.sdk import worker_limits
from ringfence.fencing.errors import Invalid
from ringfence.file_checks import Finding, Kind, Report, check_files, check_worker
from ringfence.local.errors import LocalError
from ringfence.worker_config import WorkerConfig

HERE = Path(__file__).parent
WORKERS, CONNECTORS = HERE / "workers", HERE / "connectors"
ABSENT = ("missing", "connector.class")
TO_CHANGE: dict[str, list[tuple[str, str]]] = {
    "connect-distributed.properties": [],
    "connect-standalone.properties": [],
    "of-old.properties": [],
    "with-logins.properties": [
        ("not possible", "producer.partitioner.availability.timeout.ms"),
        ("not possible", "consumer.max.poll.records"),
    ],
    "with-everything.properties": [
        ("not possible", "producer.interceptor.classes"),
        ("not possible", "consumer.interceptor.classes"),
    ],
    "with-a-vault.properties": [
        ("invalid", "offset.flush.interval.ms"),
        ("invalid", "config.providers.vault.class"),
        ("unknown", "exactly.once.source.suport"),
    ],
    "connect-file-sink.properties": [("not possible", "connector.class")],
    "connect-file-source.properties": [],
    "connect-mirror-maker.properties": [("not possible", "A->B"), ("not possible", "B->A")],
    "debezium-mariadb.properties": [ABSENT],
    "debezium-mongodb-1.json": [
        ABSENT,
        ("renamed", "mongodb.hosts"),
        ("renamed", "mongodb.name"),
        ("renamed", "collection.whitelist"),
    ],
    "debezium-mongodb.json": [ABSENT],
    "debezium-mysql-1.json": [
        ABSENT,
        ("renamed", "database.server.name"),
        ("renamed", "database.history.kafka.bootstrap.servers"),
        ("renamed", "database.history.kafka.topic"),
    ],
    "debezium-mysql.json": [ABSENT],
    "debezium-oracle.yaml": [ABSENT],
    "debezium-postgres-1.json": [
        ("renamed", "database.server.name"),
        ("renamed", "schema.whitelist"),
        ("renamed", "table.whitelist"),
        ("renamed", "slot.drop_on_stop"),
        ("renamed", "snapshot.mode"),
        ("renamed", "column.blacklist"),
    ],
    "debezium-postgres-flat.properties": [
        ABSENT,
        ("renamed", "transforms.unwrap.drop.tombstones"),
        ("renamed", "transforms.unwrap.delete.handling.mode"),
    ],
    "debezium-postgres-strimzi.yaml": [ABSENT, ("renamed", "plugin.name")],
    "debezium-postgres.json": [ABSENT],
    "debezium-sqlserver.json": [ABSENT],
    "file-pulse.json": [ABSENT],
    "jdbc-aiven.json": [ABSENT],
    "jdbc-incrementing.properties": [],
    "jdbc-query.json": [],
    "jdbc-timestamp.json": [],
    "mirror-checkpoint.json": [ABSENT],
    "mirror-heartbeat.json": [ABSENT],
    "mirror-source.json": [],
    "postgres-source.json": [],
    "spooldir-csv.json": [ABSENT],
    "typing-errors.json": [
        ("invalid", "tasks.max"),
        ("invalid", "value.converter"),
        ("unknown", "thruput"),
        ("unknown", "transforms.a.static.fild"),
        ("not possible", "exactly.once.source.support"),
    ],
}


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing is asked: no broker, no database, no name server."""

    def refuse(*_: object, **__: object) -> Any:
        raise AssertionError("a check must not use the network")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    before = worker_limits.current()
    yield
    worker_limits.declare(before)


def check(path: Path, worker: Path | None = None) -> Report:
    ((_, reports),) = check_files([path], worker)
    assert isinstance(reports, list), reports
    (report,) = reports
    return report


def find(report: Report, setting: str) -> Finding:
    (finding,) = [each for each in report.findings if each.setting == setting]
    return finding


@pytest.mark.parametrize(
    "path", [*sorted(WORKERS.iterdir()), *sorted(CONNECTORS.iterdir())], ids=lambda path: path.name
)
def test_what_to_change(path: Path) -> None:
    report = check(path)
    assert [(str(each.kind), each.setting) for each in report.findings if each.fatal] == TO_CHANGE[path.name]
    assert report.passed is not bool(TO_CHANGE[path.name])
    assert all(len(line.splitlines()) == 1 for line in report.lines())


@pytest.mark.parametrize("path", sorted(WORKERS.iterdir()), ids=lambda path: path.name)
def test_a_worker_starts_with_what_passes(path: Path) -> None:
    environment = {"RINGFENCE_WORKER_CONFIG": str(path)}
    if check(path).passed:
        assert WorkerConfig.from_environment(environment).group_id
    else:
        with pytest.raises(Invalid, match="ringfence check FILE"):
            WorkerConfig.from_environment(environment)


_NAMES = st.sampled_from(
    [
        "exactly.once.source.support", "exactly.once.source.enabled", "offset.flush.interval.ms", "producer.acks",
        "topic.tracking.enable", "config.providers", "producer.retries", "security.protocol", "sasl.mechanism",
        "connector.client.config.override.policy", "egress.allow", "tasks.max.limit", "inter.worker.key.size",
        "producer.bootstrap.servers", "auto.restart.max.attempts", "scheduled.rebalance.max.delay.ms", "file.roots",
    ]
)  # fmt: skip


@given(st.dictionaries(_NAMES, st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), max_size=12)))
def test_what_keeps_a_worker_from_starting_is_found(settings: dict[str, str]) -> None:
    variables = {"CONNECT_" + name.upper().replace(".", "_"): value for name, value in settings.items()}
    try:
        WorkerConfig.from_environment(variables)
    except Invalid:
        assert not check_worker(settings).passed
    else:
        assert all(each.kind is Kind.UNKNOWN for each in check_worker(settings).findings if each.fatal)


def test_names_of_the_draft_are_read_as_the_final_ones(caplog: pytest.LogCaptureFixture) -> None:
    config = WorkerConfig.from_environment({"RINGFENCE_WORKER_CONFIG": str(WORKERS / "of-old.properties")})
    assert (config.mode, config.offsets_topic) == ("enabled", "connect-offsets")
    assert "exactly.once.source.enabled" not in config.settings
    assert "exactly.once.source.enabled is a name of KIP-618's draft" in caplog.text
    both = {"CONNECT_EXACTLY_ONCE_SOURCE_ENABLED": "true", "CONNECT_EXACTLY_ONCE_SOURCE_SUPPORT": "preparing"}
    assert WorkerConfig.from_environment(both).mode == "preparing", "the final name comes first"
    assert WorkerConfig.from_environment({"CONNECT_EXACTLY_ONCE_SOURCE_ENABLED": "False"}).mode == "disabled"
    with pytest.raises(Invalid, match=r"exactly\.once\.source\.support=often"):
        WorkerConfig.from_environment({"CONNECT_EXACTLY_ONCE_SOURCE_ENABLED": "often"})


def test_up_reads_the_names_of_the_draft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own default of the final name must not hide them."""
    from ringfence.local.environment import read_environment

    file = tmp_path / "worker.properties"
    file.write_text("exactly.once.source.enabled=false\n")
    assert read_environment(file)["CONNECT_EXACTLY_ONCE_SOURCE_SUPPORT"] == "disabled"
    monkeypatch.setenv("CONNECT_EXACTLY_ONCE_SOURCE_ENABLED", "true")
    assert read_environment(file)["CONNECT_EXACTLY_ONCE_SOURCE_SUPPORT"] == "enabled"


def test_notes_name_the_remedy() -> None:
    standalone = check(WORKERS / "connect-standalone.properties")
    assert "ringfence offsets set" in find(standalone, "offset.storage.file.filename").text
    assert "ringfence applies" in find(standalone, "group.id").text
    assert "PostgresSource" in find(check(CONNECTORS / "debezium-postgres.json"), "connector.class").text
    oracle = find(check(CONNECTORS / "debezium-oracle.yaml"), "connector.class").text
    assert "ringfence plugins install io.debezium:debezium-connector-oracle:" in oracle
    assert "topic.prefix" in find(check(CONNECTORS / "debezium-postgres-1.json"), "database.server.name").text
    suggestion = find(check(CONNECTORS / "typing-errors.json"), "transforms.a.static.fild").text
    assert "transforms.a.static.field" in suggestion


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_the_workers_file_counts(tmp_path: Path) -> None:
    """A worker's override policy, its plugins and its mode come from its file, wherever among the files it is."""
    connector = write(
        tmp_path / "c.properties",
        "name=c\nconnector.class=VerifiableSource\ntopic=t\nthroughput=1\nproducer.override.linger.ms=5\n",
    )
    worker = write(tmp_path / "w.properties", "group.id=g\nconnector.client.config.override.policy=None\n")
    assert check(connector).passed
    assert not check(connector, worker).passed
    (_, (report,)), (_, (of_the_worker,)) = check_files([connector, worker], None)  # type: ignore[misc]
    assert isinstance(report, Report)
    assert "'None' policy" in find(report, "producer.override.linger.ms").text
    assert isinstance(of_the_worker, Report)
    assert of_the_worker.passed
    with pytest.raises(LocalError, match="is not a worker's file"):
        list(check_files([connector], connector))


def test_a_java_plugin_is_found_in_the_workers_plugin_path(tmp_path: Path) -> None:
    from zipfile import ZipFile

    with ZipFile(tmp_path / "debezium-connector-mysql-3.5.0.Final.jar", "w") as jar:
        manifest = "META-INF/services/org.apache.kafka.connect.source.SourceConnector"
        jar.writestr(manifest, "io.debezium.connector.mysql.MySqlConnector\n")
    worker = write(tmp_path / "w.properties", f"group.id=g\nplugin.path={tmp_path}\n")
    report = check(CONNECTORS / "debezium-mysql.json", worker)
    assert report.passed
    assert "3.5.0.Final" in report.subject


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("c.json", '{"name": "c", "config": {"connector.class": "DltSource", "tasks.max": null}}', "null"),
        ("c.json", '{"a": "b"}', "neither a worker's file nor"),
        ("c.json", "[1]", "map of settings"),
        ("c.json", "{", "neither JSON nor YAML"),
        ("c.yaml", "", "is empty"),
        ("c.properties", "connector.class=A\nname\n", "line 2"),
        ("c.properties", "name=c\nconnector.class=A\nx=1\nx=2\n", "repeats x"),
    ],
)
def test_what_cannot_be_read_is_one_line(tmp_path: Path, name: str, text: str, words: str) -> None:
    ((_, error),) = check_files([write(tmp_path / name, text)], None)
    assert isinstance(error, LocalError)
    assert words in str(error)
    assert "\n" not in str(error)


def test_several_connectors_of_one_file(tmp_path: Path) -> None:
    one = "connector.class: VerifiableSource\ntopic: t\nthroughput: 1\n"
    path = write(tmp_path / "c.yaml", f"name: a\n{one}---\nname: b\n{one}typo: 1\n")
    ((_, reports),) = check_files([path], None)
    assert isinstance(reports, list)
    assert [report.passed for report in reports] == [True, False]


def test_no_secret_is_printed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    tricky = {"database.port": "hidden-value", "database.password": "hidden-value", "\x1b[31mx": "y"}
    lines = "".join(f"{name}={value}\n" for name, value in tricky.items())
    path = write(tmp_path / "c.properties", f"name=c\nconnector.class=PostgresSource\n{lines}")
    files = [str(each) for each in (*WORKERS.iterdir(), *CONNECTORS.iterdir(), path)]
    assert main(["check", *files]) == 1
    printed = capsys.readouterr()
    assert "-secret" not in printed.out + printed.err
    assert "hidden-value" not in printed.out
    assert "\x1b" not in printed.out


def test_the_command_says_by_its_exit_code_whether_something_must_be_changed() -> None:
    """As continuous integration calls it, without variables of a cluster."""
    environment = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}
    command = [sys.executable, "-m", "ringfence.cli", "check"]
    for file, code in (("postgres-source.json", 0), ("debezium-mysql-1.json", 1)):
        done = subprocess.run(
            [*command, str(CONNECTORS / file)], env=environment, capture_output=True, text=True, timeout=120
        )
        assert (done.returncode, done.stderr) == (code, "")
        assert "nothing to change" in done.stdout or "4 to change" in done.stdout
