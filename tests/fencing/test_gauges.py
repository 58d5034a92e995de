"""What a plugin measures itself goes with the attempt's numbers: bounded, now and then, without secrets."""

import logging
from typing import cast

import pytest

from ringfence.fencing.task import plugin_metrics
from ringfence.fencing.task.attempt_report import Counters, TaskReport
from ringfence.fencing.task.plugin_metrics import MOST, Gauges
from ringfence.fencing.topics.reporter import Reporter
from tests.support.logs import own_messages
from tests.support.task_reports import Heard, Watch
from tests.support.task_specs import SPEC


def test_gauges_go_with_the_numbers_every_few_seconds_and_again_where_they_stay() -> None:
    heard, clock, counters = Heard(), Watch(), Counters()
    report = TaskReport(
        SPEC, cast(Reporter, heard), counters, clock, redact=lambda text: text.replace("pw1", "[hidden]")
    )
    lag = report.gauges.gauge("lag", "Behind db:pw1", unit="bytes", limit=10, remedy="Wait")
    lag.set(7)
    told: list[tuple[float, object]] = []
    for second in range(50):
        clock.now += 1
        counters.records += second < 8
        lag.set(7 if second < 3 else 9)
        heard.events.clear()
        report.tick()
        told += [(second, event["gauges"]) for event in heard.events if "gauges" in event]

    def described(value: float) -> list[dict[str, object]]:
        gauge = {"name": "lag", "value": value, "unit": "bytes", "description": "Behind db:[hidden]"}
        return [{**gauge, "limit": 10, "remedy": "Wait"}]

    assert told == [(0, described(7)), (5, described(9)), (35, described(9))]


def test_only_known_finite_values_of_the_living_instance_are_told() -> None:
    gauges = Gauges()
    gauges.gauge("none", "n")
    gauges.gauge("nan", "n").set(float("nan"))
    gauges.gauge("infinite", "n").set(float("inf"))
    known = gauges.gauge("rows", "n", labels={"table": "a"})
    known.set(1)
    assert gauges.gauge("rows", "n", labels={"table": "a"}) is known
    gauges.gauge("rows", "n", labels={"table": "b"}).set(2)
    assert [each["value"] for each in gauges.report()] == [1, 2]
    gauges.clear()
    known.set(3)
    assert gauges.report() == []


def test_there_are_bounds(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, plugin_metrics.__name__)  # other tests set the levels of its parents
    gauges = Gauges()
    for number in range(MOST + 3):
        gauges.gauge(f"g{number}", "n").set(1)
    assert len(gauges.report()) == MOST
    assert len(own_messages(caplog)) == 1
    for name in ("", "Lag", "lag-ms", "1st", "a" * 81, "lag\n"):
        with pytest.raises(ValueError, match="a-z, 0-9 and _"):
            gauges.gauge(name, "n")
    for labels in ({"connector": "x"}, {"T": "x"}, {f"l{n}": "x" for n in range(5)}):
        with pytest.raises(ValueError, match="labels"):
            gauges.gauge("lag", "n", labels=labels)
