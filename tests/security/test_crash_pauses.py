"""Whose instances end the process of all again and again has to wait longer and longer; the others do not."""

import itertools
import time
from collections.abc import Callable, Iterator

import pytest

from ringfence.engine.plugins import PluginError, PluginHost, instance_supervisor
from ringfence.engine.plugins.errors import PluginCrash
from ringfence.engine.plugins.instance_supervisor import CrashPauses
from ringfence.engine.plugins.process import ChildProcess
from ringfence.fencing.backoff import Backoff
from tests.support.plugin_hosts import PATIENCE, hostile


def refusal(pauses: CrashPauses, connector: str, account: str = "") -> str:
    try:
        pauses.check(connector, account)
    except PluginError as error:
        return error.message
    return ""


def test_the_pause_of_a_connector_grows_and_is_forgiven() -> None:
    clock = [0.0]
    pauses = CrashPauses(lambda: clock[0])
    waited = []
    for _ in range(12):
        pauses.note("c", "")
        began = clock[0]
        assert refusal(pauses, "other") == ""
        while refusal(pauses, "c"):
            clock[0] += 0.1
        waited.append(clock[0] - began)
    assert 1.6 <= waited[0] <= 2.1
    assert all(later > 1.2 * sooner for sooner, later in itertools.pairwise(waited[:7]))
    assert 240 <= waited[-1] <= 300.1
    clock[0] += 901
    pauses.note("else", "")
    pauses.note("c", "")
    assert "1 times" in refusal(pauses, "c")


def test_new_names_bring_no_new_attempts() -> None:
    clock = [0.0]
    pauses = CrashPauses(lambda: clock[0])
    attempts = 0
    while clock[0] < 600:
        name = f"c{attempts}"
        if not refusal(pauses, name, "editor-a"):
            pauses.note(name, "editor-a")
            attempts += 1
        clock[0] += 0.5
        assert refusal(pauses, "honest", "editor-b") == ""
    assert attempts < 14
    assert "account editor-a have ended their process" in refusal(pauses, "new", "editor-a")


@pytest.fixture
def host(environment: dict[str, str]) -> Iterator[PluginHost]:
    running = PluginHost(environment=environment, call_seconds=PATIENCE)
    yield running
    running.close()


def test_instances_that_crash_again_and_again_start_few_processes(
    host: PluginHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    supervisor = host._groups._own.live
    start_process, started = supervisor._start_process, list[float]()

    def count(on_end: Callable[[ChildProcess], None]) -> ChildProcess:
        started.append(time.monotonic())
        return start_process(on_end)

    monkeypatch.setattr(supervisor, "_start_process", count)
    monkeypatch.setattr(instance_supervisor, "_CRASH_BACKOFF", Backoff(60, 300))
    grant_a, grant_b = ({"user": f"editor-{each}", "patterns": []} for each in "ab")
    host.start_connector("honest", hostile(), (), PATIENCE, grant=grant_b)
    crashes, refusals = 0, list[str]()
    until = time.monotonic() + 20
    while len(refusals) < 50 and time.monotonic() < until:
        name = f"bad-{crashes % 7}"
        try:
            host.start_connector(name, hostile("crash"), (), PATIENCE, grant=grant_a)
            host.task_configs(name, 1, None, PATIENCE)
        except PluginCrash:
            crashes += 1
        except PluginError as error:
            refusals.append(error.message)
    assert crashes == 3, "two that cost the account nothing yet, and the one that does"
    assert ["is not started for" in text for text in refusals] == 50 * [True]
    host.start_connector("other", hostile(), (), PATIENCE, grant=grant_b)
    assert len(host.task_configs("other", 1, None, PATIENCE)) == 1
    assert 1 < len(started) <= crashes + 1
