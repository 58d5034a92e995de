"""What a Java plugin does wrong hurts its own task, which then says what happened. Real JVMs, no Kafka."""

import json
import os
import shutil
import signal
import time
import zipfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from ringfence.connectors.api import ConnectorError, RetriableError
from ringfence.connectors.api.records import MixedBatch
from ringfence.connectors.java import connection_trouble, processes, runtime
from ringfence.connectors.java import task as java_task
from ringfence.connectors.java.channel import JavaEnded, JavaFailure
from ringfence.connectors.java.connector import JavaSourceConnector, java_connector_class
from ringfence.connectors.java.discovery import find_plugins
from ringfence.connectors.java.task import JavaSourceTask
from ringfence.engine.plugins import PluginHost
from ringfence.fencing.clock import Deadline
from ringfence.fencing.task.plugin_metrics import Gauges
from ringfence.fencing.task.transaction_context import RequestedEndings
from ringfence.requests.request import Refusal
from tests.connectors.java.conftest import CLASS, Reader, Start
from tests.support.java_plugins import runtime_of
from tests.support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("plugins")]


def poll(task: JavaSourceTask, seconds: float = 60) -> MixedBatch:
    """The next batch."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        batch = task.poll()
        if batch is not None:
            assert isinstance(batch, MixedBatch)
            return batch
    raise AssertionError(f"no batch within {seconds} s")


def test_an_exit_ends_the_task_with_its_code(start: Start) -> None:
    with pytest.raises(JavaEnded, match=r"exit code 42: the connector, or one of its libraries, called System\.exit"):
        poll(start("exit"))


def test_an_option_that_writes_between_the_frames_is_told(
    plugins: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A length would be read out of the text, and waited for."""
    monkeypatch.setattr(runtime, "_current", [runtime_of(plugins, java_options="-Xlog:gc")])
    with pytest.raises(JavaEnded, match=r"wrote to its standard output, which is not for logs: .*\[info\]\[gc"):
        start("wait")


def test_a_warning_of_the_jvm_is_no_frame(
    plugins: Path, start: Start, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(runtime, "_current", [runtime_of(plugins, java_options="-Xms24m -Xmx64m -Xmn70m")])
    with caplog.at_level("INFO"):
        start("wait")
        eventually(lambda: "MaxNewSize" in caplog.text, 30, lambda: caplog.text)


def test_a_full_heap_ends_the_task_with_the_remedy(start: Start) -> None:
    with pytest.raises(JavaEnded, match=r"ran out of memory and ended\. Raise -Xmx"):
        poll(start("memory"))


def test_a_failed_start_tells_its_trace(start: Start) -> None:
    with pytest.raises(JavaFailure, match="ConnectException: cannot start"):
        start("fail in start")


def test_a_retriable_exception_is_ours(start: Start) -> None:
    with pytest.raises(RetriableError, match="the source is away"):
        poll(start("retry"))


def test_a_plugin_that_pauses_after_a_refusal_has_not_asked_its_source(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Debezium does so for ten seconds, and its polls return nothing in the meantime."""
    task = start("pause")
    with pytest.raises(RetriableError, match="the source is away"):
        poll(task)
    assert task.poll() is None
    assert not task.has_answered
    monkeypatch.setattr(java_task, "_QUIET_SECONDS", 1.0)  # in place of 15
    eventually(lambda: task.poll() is None and task.has_answered, 30, "the source counts as being there", pause=0)


def test_a_plugin_that_only_logs_that_its_source_is_away_is_heard(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = start("away")
    with pytest.raises(RetriableError, match=r"logs that it cannot connect: No answer \(Connection refused\)"):
        poll(task)
    assert task.poll() is None
    assert not task.has_answered
    assert task._process is not None
    monkeypatch.setattr(connection_trouble, "_QUIET_SECONDS", 1.0)  # in place of 15
    task._process.send("level", logger="", level="ERROR")

    def counts_as_there() -> bool:
        with suppress(RetriableError):
            assert task.poll() is None
        return task.has_answered

    eventually(counts_as_there, 30, "its log is silent", pause=0)


def test_a_frozen_process_is_killed(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    task = start("wait")
    assert task._process is not None
    monkeypatch.setattr(java_task, "SILENT_SECONDS", 6.0)  # in place of 30
    os.kill(task._process.pid, signal.SIGSTOP)
    with pytest.raises(JavaEnded, match="did not respond for 6 s and was killed"):
        poll(task)


def test_a_poll_that_hangs_is_no_failure_and_a_stop_ends_it(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    task = start("hang")
    process = task._process
    assert process is not None
    eventually(lambda: process.polling_ms > 3000, 60, "the heartbeat tells how long the poll lasts")

    def counts_as_there() -> bool:
        assert task.poll() is None
        return task.has_answered

    assert counts_as_there()
    monkeypatch.setattr(java_task, "_LONG_POLL_MS", 3000)  # in place of 30 seconds
    assert not counts_as_there(), "its data is not as of now"
    began = time.monotonic()
    task.stop()
    assert process.ended is not None or time.monotonic() - began < 30
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)


def test_transactions_are_the_connectors(start: Start) -> None:
    requests = RequestedEndings()
    task = start("transactions", requests, transaction_boundary="connector")
    seen = []
    for _ in range(3):
        batch = poll(task)
        (part,) = requests.parts(batch)
        seen.append((batch.values, part.ending, batch.offsets[-1][1]))
    assert seen == [
        ([b"v1", b"v2"], "commit", {"row": 2}),
        ([b"v3", b"v4"], "abort", {"row": 4}),
        ([b"v5"], None, {"row": 5}),
    ]


def test_a_bad_record_becomes_a_dead_letter_and_its_offset_counts(start: Start) -> None:
    task = start(
        "skip",
        transforms="cast",
        transforms_cast_type="org.apache.kafka.connect.transforms.Cast$Value",
        transforms_cast_spec="int32",
        errors_tolerance="all",
        errors_deadletterqueue_topic_name="letters",
    )
    batch = poll(task)
    assert (batch.topics, batch.values) == ("letters", [b"a", b"b"])
    assert batch.offsets == [({"table": "t"}, {"row": 2})]
    assert batch.headers is not None
    told = dict(batch.headers[0] or ())
    assert told["__connect.errors.stage"] == b"TRANSFORMATION"
    assert told["__connect.errors.topic"] == b"topic"
    assert told["__connect.errors.source.offset"] == b'{"row":1}'


def test_a_committed_record_is_told_with_where_it_is(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    """One that a transform drops is told, too, without a place."""
    task = start(
        "skip",
        transforms="drop",
        transforms_drop_type="org.apache.kafka.connect.transforms.Filter",
        transforms_drop_predicate="marked",
        predicates="marked",
        predicates_marked_type="org.apache.kafka.connect.transforms.predicates.HasHeaderKey",
        predicates_marked_name="drop",
    )
    assert task.wants_positions
    batch = poll(task)
    assert batch.values == [b"b"]
    task.note_positions([(2, 41, 1000)])
    with caplog.at_level("INFO"):
        task.commit()
        eventually(lambda: "committed b at topic-2@41" in caplog.text, 30, lambda: caplog.text)
    assert "committed a at null" in caplog.text


def test_the_log_level_is_javas_too(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("DEBUG"):
        task = start("wait")
        task.set_level("DEBUG")
        eventually(lambda: "a poll begins" in caplog.text, 30, lambda: caplog.text)
        task.set_level("DEBUG", until_ms=1)  # that is over
        assert task.poll() is None
        assert task._level == "INFO"


def test_its_mbeans_are_metrics_of_the_source(start: Start) -> None:
    task = start("wait")
    gauges = task.context.metrics
    assert isinstance(gauges, Gauges)

    def told() -> bool:
        task.poll()
        return [(each["name"], each["value"]) for each in gauges.report()] == [("polls_seen", 1.0)]

    eventually(told, 30, lambda: gauges.report())


class ConnectorContext:
    offset_reader = Reader()
    trial = False

    def __init__(self) -> None:
        self.asked = 0
        self.errors: list[str] = []

    def why_closed(self, topic: str) -> str:
        return ""

    def warn(self, text: str) -> None:
        pass

    def request_task_reconfiguration(self) -> None:
        self.asked += 1

    def raise_error(self, error: Exception) -> None:
        self.errors.append(str(error))


def connector(plugins: Path) -> JavaSourceConnector:
    (plugin,) = find_plugins([str(plugins)])
    return java_connector_class(plugin)()


def test_the_connector_answers(plugins: Path) -> None:
    hostile = connector(plugins)
    config = {"name": "h", "connector.class": "Hostile", "behaviour": "wait", "tasks.max": "1"}
    assert hostile.version == "7"
    assert list(type(hostile).config_def().keys) == ["behaviour"]
    assert hostile.exactly_once_support(config) == "SUPPORTED"
    assert hostile.can_define_transaction_boundaries(config) == "SUPPORTED"
    wrong = {key.name: value.errors for key, value in hostile.validate_by_java({"name": "h"}) if value.errors}
    assert wrong == {"behaviour": ['Missing required configuration "behaviour" which has no default value.']}
    with pytest.raises(ConnectorError, match="no such table"):
        hostile.alter_offsets(config, [({"table": "t"}, {"row": 1})])
    context = ConnectorContext()
    hostile.context = context
    hostile.start({**config, "behaviour": "raise an error"})
    eventually(lambda: bool(context.errors), 30, "the error that it raises")
    assert context.errors[0].startswith("org.apache.kafka.connect.errors.ConnectException: the source is gone")
    hostile.stop()
    hostile.start(config)
    assert hostile.task_configs(1) == [{**config, "connector.class": CLASS}]
    process = processes.get()
    process.kill("the test kills it")
    eventually(lambda: context.asked == 1, 30, "it asks for new task configurations")
    assert hostile.task_configs(1)[0]["behaviour"] == "wait", "it starts again in a new process"
    hostile.stop()


def test_two_versions_side_by_side(plugins: Path, start: Start, tmp_path: Path) -> None:
    """The connector and its task say which one answers."""
    for version in ("8", "9"):
        place = tmp_path / version / f"hostile-{version}.jar"
        place.parent.mkdir()
        shutil.copy(plugins / "hostile-7.jar", place)
        with zipfile.ZipFile(place, "a") as archive:
            archive.writestr("hostile-version", version)
    before = runtime.current()
    assert before is not None
    runtime.declare(replace(before, plugin_path=str(tmp_path)))
    try:
        newer, older = (java_connector_class(each)() for each in find_plugins([str(tmp_path)]))
        for each in (older, newer, older):
            with pytest.raises(ConnectorError, match=f"no such table in {each.version}$"):
                each.alter_offsets({"name": "h", "behaviour": "wait"}, [({"table": "t"}, {"row": 1})])
        for wanted, version in (("8", "8"), ("[8,9)", "8"), ("latest", "9")):
            task = start("version", connector_plugin_version=wanted)
            assert poll(task).values == [version.encode()]
            task.stop()
        with pytest.raises(
            ConnectorError, match=r"Version 7 of hostile\.HostileConnector is not installed on this worker"
        ):
            start("version", connector_plugin_version="7")
    finally:
        processes.close()
        runtime.declare(before)


def test_a_java_plugin_takes_a_permission_of_its_own(plugins: Path) -> None:
    java = runtime.current()
    assert java is not None
    host = PluginHost(
        environment={runtime.ENVIRONMENT: json.dumps(java.as_settings())}, call_processes=1, call_seconds=60
    )
    try:
        for name in (CLASS, "Hostile"):
            with pytest.raises(Refusal, match="you need the permission java-plugins") as refused:
                host.check_permission(name, Deadline.after(60), java=False)
            assert refused.value.status == 403
            host.check_permission(name, Deadline.after(60), java=True)
        host.check_permission("FileStreamSource", Deadline.after(60), java=False)
        twin = "org.apache.kafka.connect.file.FileStreamSourceConnector"  # ours
        host.check_permission(twin, Deadline.after(60), java=False)
    finally:
        host.close()
