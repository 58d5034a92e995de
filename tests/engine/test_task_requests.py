"""What a leader makes of tasks' requests for new task configurations. Pure."""

from dataclasses import replace

import pytest

from ringfence.engine.leader.reconfiguration_requests import TaskRequests
from ringfence.fencing.ids import TaskId
from ringfence.fencing.topics.config_records import TargetStateRecord
from ringfence.fencing.topics.connector_state import ConnectorState, TargetState
from ringfence.fencing.topics.status import StatusState, TaskStatus, decode, encode
from tests.support.cluster_states import C, fold
from tests.support.decisions import A, on, running, said

T0 = TaskId(C, 0)
STATE = fold([*running(1), on(A, 0)])


def asked(at_ms: int, generation: int = 2) -> StatusState:
    (told,) = said(on(A, 0, generation=generation)).values()
    return StatusState(tasks={T0: replace(told, reconfigure_ms=at_ms)})


class Instances:
    """Asks a connector's instance, unless it is being asked."""

    def __init__(self) -> None:
        self.busy = False
        self.times = 0

    def ask(self, _connector: ConnectorState) -> bool:
        self.times += not self.busy
        return not self.busy


@pytest.fixture
def instances() -> Instances:
    return Instances()


def test_each_request_is_passed_on(instances: Instances) -> None:
    requests = TaskRequests(instances.ask)
    for at_ms in (0, 5, 5, 5, 9, 9):
        requests.note(STATE, asked(at_ms), 0.0)
    assert instances.times == 2
    TaskRequests(instances.ask).note(STATE, asked(9), 0.0)
    assert instances.times == 3, "a new leader passes it on again: its predecessor may have died first"


def test_a_request_without_effect_is_repeated_a_few_times(instances: Instances) -> None:
    """What the task has committed is perhaps not visible yet when the connector reads its offsets."""
    requests = TaskRequests(instances.ask)
    for tenths in range(1200):
        requests.note(STATE, asked(5), tenths / 10)
        if tenths < 10:
            assert instances.times == 1
    assert instances.times == 4
    requests.note(STATE, asked(5, generation=1), 200.0)
    assert instances.times == 4


def test_a_request_waits_while_the_connector_is_asked_already(instances: Instances) -> None:
    """What it is being asked was perhaps before the offsets that the request is about."""
    requests = TaskRequests(instances.ask)
    instances.busy = True
    requests.note(STATE, asked(5), 0.0)
    assert instances.times == 0
    instances.busy = False
    requests.note(STATE, asked(5), 0.0)
    assert instances.times == 1


def test_a_request_of_an_older_generation_is_answered_already(instances: Instances) -> None:
    TaskRequests(instances.ask).note(STATE, asked(5, generation=1), 0.0)
    assert instances.times == 0


@pytest.mark.parametrize("target", [TargetState.PAUSED, TargetState.STOPPED])
def test_a_connector_at_rest_is_asked_when_it_runs_again(instances: Instances, target: TargetState) -> None:
    requests = TaskRequests(instances.ask)
    requests.note(fold([TargetStateRecord(C, target)], STATE), asked(5), 0.0)
    assert instances.times == 0
    requests.note(STATE, asked(5), 0.0)
    assert instances.times == 1


def test_the_status_keeps_the_request() -> None:
    (told,) = asked(5).tasks.values()
    again = decode(*encode(told))
    assert isinstance(again, TaskStatus)
    assert again.reconfigure_ms == 5
    assert b"reconfigure" not in (encode(replace(told, reconfigure_ms=0))[1] or b"")
