"""What a plugin process says as it crashes."""

import logging

import pytest

from ringfence.crashes import find_crash
from ringfence.engine.plugins import PluginCrash, PluginHost
from ringfence.engine.plugins.calls import ValidateConfig
from tests.support.plugin_hosts import hostile


def test_a_segmentation_fault_tells_its_stack(host: PluginHost, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, "ringfence.engine.plugins.process")
    with pytest.raises(PluginCrash) as caught:
        host.ask(ValidateConfig("Hostile", hostile("segfault")))
    for told in (caught.value.trace or "", caplog.text):
        assert "Fatal Python error: Segmentation fault" in told
        assert 'hostile.py", line' in told
        assert "in _misbehave" in told


def test_the_stack_of_the_thread_that_crashed_comes_first() -> None:
    told = (
        "Job aborted: Python worker exited unexpectedly (crashed): Fatal Python error: Aborted\n\n"
        'Thread 0x01 (most recent call first):\n  File "a.py", line 1 in waiting\n\n'
        'Current thread 0x02 (most recent call first):\n  File "b.py", line 2 in culprit\n'
        "\tat org.apache.spark.api.python.PythonRunner\nCaused by: java.io.EOFException"
    )
    assert find_crash(told) == (
        "Fatal Python error: Aborted\n\n"
        'Current thread 0x02 (most recent call first):\n  File "b.py", line 2 in culprit\n\n'
        'Thread 0x01 (most recent call first):\n  File "a.py", line 1 in waiting'
    )


def test_a_killed_process_has_told_nothing() -> None:
    assert find_crash("Python worker exited unexpectedly (crashed): \n\tat org.apache.spark") is None
