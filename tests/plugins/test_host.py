"""Calls into plugins: each answered, or its failure told, whatever the plugin does."""

import contextlib
import os
import signal
import subprocess
import sys
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from ringfence.engine.plugins import BadRequest, OffsetsRefused, PluginCrash, PluginError, PluginHost, PluginTimeout
from ringfence.engine.plugins import UnknownPlugin as Unknown
from ringfence.engine.plugins.calls import CheckOffsets, ReadCommonKeys, ReadConfigKeys, ValidateConfig, pairs_of
from tests.support.plugin_hosts import PATIENCE, ROOT, Heard, hostile


def eventually(condition: object, seconds: float = PATIENCE) -> None:
    assert callable(condition)
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.02)


def starts(marker: Path) -> int:
    return marker.read_text().count("start") if marker.exists() else 0


def plugin_processes() -> list[psutil.Process]:
    """Those of this run; it has other children, a broker and more."""
    found = []
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.NoSuchProcess):
            if "ringfence.engine.plugins.process_main" in child.cmdline():
                found.append(child)
    return found


def test_plugins_are_listed_with_what_cannot_be_loaded(host: PluginHost) -> None:
    by_class = {plugin["class"]: plugin for plugin in host.plugins()}
    assert by_class["tests.plugins.hostile.HostileConnector"]["version"] == "6.6.6"
    found = {str(name).rpartition(".")[2].removesuffix("Connector") for name in by_class}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert found == {*project["entry-points"]["ringfence.connectors"], "Hostile"}
    assert set(host.find_broken_plugins()) == {"Broken"}
    assert [key["name"] for key in host.ask(ReadConfigKeys("Hostile"))] == ["mood", "password", "marker", "count"]
    assert next(key["name"] for key in host.ask(ReadCommonKeys())) == "name"
    names = [key["name"] for key in host.ask(ReadConfigKeys("Hostile", common=True))]
    assert (names[0], names[-1], len(names)) == ("name", "count", len(set(names)))
    with pytest.raises(BadRequest, match="Version 99 of Hostile is not installed"):
        host.ask(ReadConfigKeys("Hostile", version="99"))
    with pytest.raises(Unknown, match="which name matches Nope"):
        host.ask(ReadConfigKeys("Nope"))


HANGS = ("hang", "hold the interpreter")


def test_a_hung_call_delays_no_other_call(host: PluginHost, tmp_path: Path) -> None:
    def hang(mood: str) -> None:
        with pytest.raises(PluginCrash):
            host.ask(ValidateConfig("Hostile", hostile(mood, misbehaves=str(tmp_path / mood))), 600)

    with ThreadPoolExecutor(2) as several:
        hung = [several.submit(hang, mood) for mood in HANGS]
        marks = [tmp_path / mood for mood in HANGS]
        eventually(lambda: all(mark.exists() and mark.read_text() for mark in marks))
        try:
            assert host.ask(ValidateConfig("Hostile", hostile()))["error_count"] == 0
            assert not any(each.done() for each in hung)
        finally:
            for mark in marks:
                os.kill(int(mark.read_text()), signal.SIGKILL)
        for each in hung:
            each.result(PATIENCE)


def test_a_hung_call_costs_its_own_process_only(host: PluginHost) -> None:
    for mood in HANGS:
        assert (
            host.ask(ValidateConfig("Hostile", hostile()))["error_count"] == 0
        )  # a process is there: a start takes long, too
        before = {each.pid for each in plugin_processes()}
        with pytest.raises(PluginTimeout, match=r"did not answer within 1 s \(validate\)"):
            host.ask(ValidateConfig("Hostile", hostile(mood)), 1)
        assert not before & {each.pid for each in plugin_processes()}
    assert host.ask(ValidateConfig("Hostile", hostile()))["error_count"] == 0
    eventually(lambda: len(plugin_processes()) <= 1)


def test_more_hung_calls_than_processes_are_told_so(environment: dict[str, str], tmp_path: Path) -> None:
    host = PluginHost(call_processes=1, environment=environment, call_seconds=PATIENCE)
    hangs = tmp_path / "hangs"
    with ThreadPoolExecutor(1) as other:
        held = other.submit(host.ask, ValidateConfig("Hostile", hostile("hang until told", misbehaves=str(hangs))))
        eventually(hangs.exists)
        try:
            # What is left of the time when it begins to wait: a busy machine takes some of it before.
            busy = r"All 1 plugin processes were busy for 0\.(2|1\d*) s, so validate was not called"
            with pytest.raises(PluginTimeout, match=busy):
                host.ask(ValidateConfig("Hostile", hostile()), 0.2)
        finally:
            Path(f"{hangs}.go").touch()
        assert held.result(PATIENCE)["error_count"] == 0
    assert host.ask(ValidateConfig("Hostile", hostile()))["error_count"] == 0
    host.close()


@pytest.mark.parametrize(("mood", "how"), [("crash", "exit code 7"), ("segfault", f"signal {signal.SIGSEGV.value}")])
def test_a_crash_is_that_calls_error_only(host: PluginHost, mood: str, how: str) -> None:
    with pytest.raises(PluginCrash, match=how):
        host.ask(ValidateConfig("Hostile", hostile(mood)))
    assert host.ask(ValidateConfig("Hostile", hostile()))["error_count"] == 0


def test_sys_exit_and_exceptions_are_reported_with_their_trace(host: PluginHost) -> None:
    with pytest.raises(PluginError, match=r"called sys\.exit in validate"):
        host.ask(ValidateConfig("Hostile", hostile("exit")))
    with pytest.raises(PluginError, match="validate failed: ValueError: no luck") as caught:
        host.ask(ValidateConfig("Hostile", hostile("raise")))
    assert "_misbehave" in (caught.value.trace or "")


def test_what_a_plugin_prints_does_not_disturb_the_protocol(host: PluginHost) -> None:
    assert host.ask(ValidateConfig("Hostile", hostile("print")))["name"] == "Hostile"


def test_a_secret_leaves_neither_in_errors_nor_in_the_answer(host: PluginHost) -> None:
    with pytest.raises(PluginError) as caught:
        host.ask(ValidateConfig("Hostile", hostile("raise", password="hunter2")))
    assert "hunter2" not in caught.value.message + (caught.value.trace or "")
    answer = host.ask(ValidateConfig("Hostile", hostile("tell", password="hunter2")))
    assert "hunter2" not in str(answer)
    assert "password [hidden] is weak" in str(answer)
    host.start_connector("c", hostile("raise", password="hunter2"))
    with pytest.raises(PluginError) as caught:
        host.task_configs("c", 1)
    assert "hunter2" not in caught.value.message + (caught.value.trace or "")


def test_validation_answers_in_connects_form(host: PluginHost) -> None:
    config: dict[str, str | None] = {"connector.class": "Hostile", "tasks.max": "0", "count": "x", "extra": None}
    answer = host.ask(ValidateConfig("tests.plugins.hostile.HostileConnector", config))
    configs = answer["configs"]
    assert isinstance(configs, list)
    errors = {entry["value"]["name"]: entry["value"]["errors"] for entry in configs if entry["value"]["errors"]}
    assert errors == {
        "name": ['Missing required configuration "name" which has no default value.'],
        "tasks.max": ["Invalid value 0 for configuration tasks.max: Value must be at least 1"],
        "count": ["Invalid value x for configuration count: Not a number of type INT"],
        "extra": ["Null value can not be supplied as the configuration value for extra."],
    }
    assert answer["error_count"] == 4
    assert answer["name"] == "Hostile"
    assert set(configs[0]["value"]) == {"name", "value", "recommended_values", "errors", "visible"}


def test_exactly_once_is_required_only_of_those_that_can(host: PluginHost) -> None:
    def errors(config: dict[str, str], *, exactly_once: bool = True) -> str:
        wanted = {**config, "exactly.once.support": "required"}
        configs = host.ask(ValidateConfig(config["connector.class"], wanted, exactly_once=exactly_once))["configs"]
        assert isinstance(configs, list)
        return str([entry["value"]["errors"] for entry in configs if entry["value"]["errors"]])

    able = {"name": "v", "connector.class": "VerifiableSource", "topic": "t"}
    assert errors(able) == "[]"
    assert "does not have exactly-once source support enabled" in errors(able, exactly_once=False)
    assert "does not implement the API required for preflight validation" in errors(hostile())


def test_a_request_that_contradicts_itself_is_refused(host: PluginHost) -> None:
    with pytest.raises(BadRequest, match=r"Connector config \{password, x\} contains no connector type"):
        host.ask(ValidateConfig("Hostile", {"x": "1", "password": "hunter2"}))
    with pytest.raises(
        BadRequest, match="Included connector type Hostile does not match request type FileStreamSource"
    ):
        host.ask(ValidateConfig("FileStreamSource", hostile()))


def test_offsets_are_checked_by_the_connector(host: PluginHost) -> None:
    assert host.ask(CheckOffsets(hostile(), pairs_of([({"n": 1}, {"good": True}), ({"n": 2}, None)])))
    with pytest.raises(OffsetsRefused, match="not this offset"):
        host.ask(CheckOffsets(hostile(), pairs_of([({"n": 1}, {"bad": True})])))


def test_an_error_that_an_instance_raises_is_told(host: PluginHost, heard: Heard) -> None:
    host.start_connector("c", hostile("raise an error"))
    eventually(lambda: [name for name, _ in heard.failed] == ["c"])
    assert "RuntimeError: the source is gone" in (heard.failed[0][1].trace or "")
    assert host.running_connectors() == ["c"]


def test_an_instance_lives_and_gives_task_configs(host: PluginHost, heard: Heard, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    host.start_connector("c", hostile("ask", marker=str(marker)), [({"n": 1}, {"at": 5})])
    assert host.task_configs("c", 1) == [
        {"n": "0", "offset": "{'at': 5}", "task.class": "tests.plugins.hostile.HostileTask"}
    ]
    assert host.task_configs("c", 1, [({"n": 1}, {"at": 9})])[0]["offset"] == "{'at': 9}"
    eventually(lambda: heard.reconfigured == ["c"])
    host.start_connector("c", hostile(marker=str(marker)))
    host.stop_connector("c")
    host.stop_connector("c")
    assert [line.split()[0] for line in marker.read_text().splitlines()] == ["start", "stop", "start", "stop"]
    with pytest.raises(PluginError, match="has no running instance"):
        host.task_configs("c", 1)


def test_more_tasks_than_allowed_are_refused_unless_told_otherwise(host: PluginHost) -> None:
    host.start_connector("c", hostile(count="3"))
    with pytest.raises(PluginError, match="has generated 3 tasks, which is greater than 2, the maximum"):
        host.task_configs("c", 2)
    host.start_connector("c", {**hostile(count="3"), "tasks.max.enforce": "false"})
    assert len(host.task_configs("c", 2)) == 3


@pytest.mark.parametrize(
    ("mood", "error"), [("crash", PluginCrash), ("hang", PluginTimeout), ("hold the interpreter", PluginTimeout)]
)
def test_an_instance_that_takes_the_process_down_is_not_started_again_but_the_others_are(
    host: PluginHost, heard: Heard, tmp_path: Path, mood: str, error: type[PluginError]
) -> None:
    good, bad = tmp_path / "good", tmp_path / "bad"
    host.start_connector("good", hostile(marker=str(good)), [({"n": 1}, {"at": 5})])
    host.start_connector("bad", hostile(mood, marker=str(bad)))
    with pytest.raises(error):
        host.task_configs("bad", 1, timeout=PATIENCE if error is PluginCrash else 1.5)
    assert host.task_configs("good", 1)[0]["offset"] == "{'at': 5}"
    assert (starts(good), starts(bad)) == (2, 1)
    assert host.running_connectors() == ["good"]
    assert heard.failed == []


def test_a_call_that_was_caught_in_anothers_fall_is_tried_again(host: PluginHost, tmp_path: Path) -> None:
    hangs = tmp_path / "hangs"
    host.start_connector("slow", hostile("hang", misbehaves=str(hangs)))
    host.start_connector("good", hostile(marker=str(tmp_path / "good")))
    asked = 0
    with ThreadPoolExecutor(1) as other:
        late = other.submit(host.task_configs, "slow", 1, timeout=5)
        eventually(hangs.exists)
        while not late.done() or not asked:
            assert len(host.task_configs("good", 1)) == 1
            asked += 1
        with pytest.raises(PluginTimeout):
            late.result()
    eventually(lambda: (tmp_path / "good").read_text().count("start") > 1)  # it fell with the other one
    assert len(host.task_configs("good", 1)) == 1


def test_a_killed_process_comes_back_and_who_fails_then_is_reported(
    host: PluginHost, heard: Heard, tmp_path: Path
) -> None:
    good, bad = tmp_path / "good", tmp_path / "bad"
    host.start_connector("bad", hostile("crash in start again", marker=str(bad)))
    host.start_connector("good", hostile(marker=str(good)))
    os.kill(int(good.read_text().split()[1]), signal.SIGKILL)
    eventually(lambda: [name for name, _ in heard.failed] == ["bad"])
    assert isinstance(heard.failed[0][1], PluginCrash)
    assert len(host.task_configs("good", 1)) == 1
    assert host.running_connectors() == ["good"]


def test_a_start_that_hangs_is_an_error_of_that_connector(host: PluginHost) -> None:
    host.start_connector("good", hostile())
    with pytest.raises(PluginTimeout, match=r"did not answer within \d+ s \(start\)"):
        host.start_connector("bad", hostile("hang in start"), timeout=5)
    assert len(host.task_configs("good", 1)) == 1


def test_plugin_processes_die_with_their_host(environment: dict[str, str]) -> None:
    code = (
        "import time, psutil\n"
        "from ringfence.engine.plugins import PluginHost; from tests.support.plugin_hosts import hostile\n"
        "host = PluginHost(call_seconds=60); host.start_connector('c', hostile()); host.plugins()\n"
        "print(*[child.pid for child in psutil.Process().children()], flush=True); time.sleep(600)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=ROOT, env={**os.environ, **environment}
    )
    assert process.stdout is not None
    pids = [int(pid) for pid in process.stdout.readline().split()]
    assert len(pids) == 2
    process.kill()
    process.wait()
    process.stdout.close()
    eventually(lambda: not any(psutil.pid_exists(pid) for pid in pids))


def test_close_leaves_no_process(environment: dict[str, str]) -> None:
    before = set(psutil.Process().children())
    host = PluginHost(environment=environment, call_seconds=PATIENCE)
    host.plugins()
    host.start_connector("c", hostile())
    assert len(set(psutil.Process().children()) - before) == 2
    host.close()
    host.close()
    assert set(psutil.Process().children()) <= before
    with pytest.raises(RuntimeError, match="closed"):
        host.plugins()
