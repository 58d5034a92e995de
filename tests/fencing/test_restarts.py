"""When a failed task is started again by itself."""

import pytest

from ringfence.connectors.api import ConfigException
from ringfence.fencing.ids import ConnectorName, Generation, Incarnation, TaskId, WorkerId
from ringfence.fencing.leader.next_placement import RestartPolicy, in_a_row, next_restart_ms, pause_s, why_of
from ringfence.fencing.topics.connector_state import Placement
from ringfence.fencing.topics.status import FAILED, MISCONFIGURED, State, TaskStatus

POLICY = RestartPolicy()


def placed(restarts: int = 0, at_ms: int = 1_000) -> Placement:
    return Placement(WorkerId("w"), Incarnation("i"), 1, Generation(2), restarts, at_ms)


def failed(at_ms: int, why: str = FAILED) -> TaskStatus:
    task = TaskId(ConnectorName("c"), 0)
    worker, incarnation = WorkerId("w"), Incarnation("i")
    return TaskStatus(task, State.FAILED, worker, Generation(2), 1, incarnation, "x", True, why, at_ms)


def test_pauses_double_up_to_ten_minutes() -> None:
    assert [pause_s(n) for n in range(8)] == [10, 20, 40, 80, 160, 320, 600, 600]
    assert pause_s(10**6) == 600


def test_each_failure_waits_longer_and_the_eighth_for_somebody() -> None:
    waits = [next_restart_ms(POLICY, placed(n), failed(5_000)) for n in range(8)]
    assert waits == [15_000, 25_000, 45_000, 85_000, 165_000, 325_000, 605_000, None]


def test_a_stable_while_begins_the_count_anew() -> None:
    assert in_a_row(placed(7), 600_999) == 7
    assert in_a_row(placed(7), 601_000) == 0
    assert next_restart_ms(POLICY, placed(7), failed(601_000)) == 611_000
    assert in_a_row(placed(7, at_ms=0), 10**12) == 7  # nobody knows since when it runs


def test_what_does_not_pass_is_not_tried_again() -> None:
    assert why_of(ConfigException("topic is missing")) == MISCONFIGURED
    assert why_of(OSError("the source is away")) == FAILED
    assert next_restart_ms(POLICY, placed(), failed(5_000, MISCONFIGURED)) is None
    assert next_restart_ms(RestartPolicy(enabled=False), placed(), failed(5_000)) is None
    assert next_restart_ms(RestartPolicy(max_attempts=0), placed(), failed(5_000)) is None


@pytest.mark.parametrize(
    ("connector", "worker", "expected"),
    [
        ({}, {}, RestartPolicy(True, 7)),
        ({}, {"auto.restart.enabled": "false"}, RestartPolicy(False, 7)),
        ({"auto.restart.enabled": "TRUE"}, {"auto.restart.enabled": "false"}, RestartPolicy(True, 7)),
        ({"auto.restart.max.attempts": " 3 "}, {"auto.restart.max.attempts": "5"}, RestartPolicy(True, 3)),
        ({}, {"auto.restart.max.attempts": "5"}, RestartPolicy(True, 5)),
        ({"auto.restart.max.attempts": "many"}, {}, RestartPolicy(True, 7)),
    ],
)
def test_the_connector_s_settings_come_before_the_worker_s(
    connector: dict[str, str], worker: dict[str, str], expected: RestartPolicy
) -> None:
    assert RestartPolicy.of(connector, worker) == expected
