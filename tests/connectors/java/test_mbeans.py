"""MBeans of a plugin as metrics of the source; pure."""

from ringfence.connectors.java.task import find_gauges

BEAN = "debezium.postgres:type=connector-metrics,context=streaming,server=shop"


def test_the_lag_comes_first_and_in_seconds() -> None:
    lag, events = find_gauges({f"{BEAN}/TotalNumberOfEventsSeen": 7, f"{BEAN}/MilliSecondsBehindSource": 1500})
    assert (lag.name, lag.value, lag.unit, lag.labels) == ("lag", 1.5, "seconds", {"context": "streaming"})
    assert (events.name, events.value) == ("total_number_of_events_seen", 7.0)


def test_a_lag_that_is_not_known_is_not_shown() -> None:
    (lag,) = find_gauges({f"{BEAN}/MilliSecondsBehindSource": -1})
    assert lag.value is None


def test_no_more_than_a_task_may_have() -> None:
    assert len(list(find_gauges({f"{BEAN}/Attribute{number}": 1 for number in range(200)}))) == 90
