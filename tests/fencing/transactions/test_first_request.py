"""Which request begins a transaction that follows the last one at once, with transactions v2."""

import pytest

from ringfence.fencing.transactions.messages import (
    AddPartitions,
    Produce,
)
from ringfence.fencing.transactions.state_machine import StateMachine
from ringfence.fencing.transactions.steps import Phase
from tests.fencing.transactions.simulated_cluster import batch_of
from tests.fencing.transactions.willing_broker import WillingBroker


def first_requests(wait: str | None, pause: float) -> list[type]:
    """Return what each of six transactions began with. pause: between them, in seconds."""
    machine, broker, now = StateMachine("id", 60_000), WillingBroker(wait), 0.0

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
