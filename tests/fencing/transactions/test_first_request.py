"""Which request begins a transaction that follows the last one at once, with transactions v2."""

import pytest

from ringfence.fencing.transactions.messages import (
    NO_TOPIC_ID,
    AddPartitions,
    BatchResponse,
    BrokerSetting,
    CodesResponse,
    CoordinatorResponse,
    EndTransaction,
    FindCoordinator,
    IdentityResponse,
    InitProducerId,
    Metadata,
    MetadataResponse,
    Produce,
    ProduceResponse,
    Request,
    Response,
    SettingResponse,
    TopicMetadata,
)
from ringfence.fencing.transactions.state_machine import StateMachine
from ringfence.fencing.transactions.steps import Phase
from tests.fencing.transactions.simulated_cluster import batch_of


class Broker:
    """Answers everything at once. wait: what it says of how long leaders wait."""

    def __init__(self, wait: str | None) -> None:
        self.kinds: list[type] = []
        self._wait = wait
        self._epoch = 0

    def answer(self, request: Request) -> Response:
        self.kinds.append(type(request))
        match request:
            case FindCoordinator():
                return CoordinatorResponse(0, 0, 1, "h", 1)
            case Metadata():
                return MetadataResponse(0, {1: ("h", 1)}, {"t": TopicMetadata(0, NO_TOPIC_ID, [1])})
            case BrokerSetting():
                return SettingResponse(0, 0 if self._wait else 31, self._wait)
            case Produce():
                return ProduceResponse(0, {place: BatchResponse(0, -1) for place in request.batches})
            case AddPartitions():
                return CodesResponse(0, dict.fromkeys(request.places, 0))
        assert isinstance(request, InitProducerId | EndTransaction)
        self._epoch += 1
        return IdentityResponse(0, 0, 7, self._epoch)


def first_requests(wait: str | None, pause: float) -> list[type]:
    """Return what each of six transactions began with. pause: between them, in seconds."""
    machine, broker, now = StateMachine("id", 60_000), Broker(wait), 0.0

    def run() -> None:
        while requests := machine.poll(now):
            for each in requests:
                machine.take_answer(each.number, broker.answer(each.request), now)

    machine.use_version(True)
    machine.initialise()
    run()
    firsts: list[type] = []
    for _ in range(6):
        machine.begin(now)
        broker.kinds.clear()
        machine.add(("t", 0), batch_of([1]), now)
        machine.commit()
        run()
        assert machine.phase is Phase.READY
        firsts.append(next(each for each in broker.kinds if each in (Produce, AddPartitions)))
        now += pause
    return firsts


@pytest.mark.parametrize("wait", ["1", "20", None])
def test_where_leaders_wait_long_the_coordinator_is_asked_first(wait: str | None) -> None:
    rest = Produce if wait == "1" else AddPartitions
    assert first_requests(wait, 0.001) == [Produce, AddPartitions, rest, rest, rest, rest]


@pytest.mark.parametrize("wait", ["1", "20", None])
def test_a_transaction_that_does_not_follow_at_once_needs_no_other_request(wait: str | None) -> None:
    assert first_requests(wait, 0.1) == [Produce] * 6
