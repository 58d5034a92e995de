"""Clients that are kept from one fencing round to the next: after a start of the platform hundreds may be due."""

from collections.abc import Callable, Collection, Mapping, Sequence

import pytest

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Retriable
from ringfence.fencing.kafka.client_pool import ClientPool
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.fencer import FencedProducer
from ringfence.fencing.kafka.open_transactions import Hanging
from ringfence.fencing.leader import fence_generation, older_epochs
from ringfence.fencing.leader.fence_targets import AdminAccess

WHERE = Connection("broker:9092")


class Client:
    """Fences and looks for what hangs, unless it is `away`."""

    def __init__(self, connection: Connection, seconds: float = 0.0) -> None:
        made.append(self)
        self.away = self.closed = False

    def close(self) -> None:
        self.closed = True

    def fence(self, ids: Sequence[str], deadline: Deadline) -> list[FencedProducer]:
        self._answer()
        return [FencedProducer(each, 1, 1) for each in ids]

    def leftovers(self, topics: Collection[str], epochs: Mapping[int, int]) -> list[Hanging]:
        self._answer()
        return []

    def _answer(self) -> None:
        if self.away:
            raise Retriable("the connection is gone")


made: list[Client] = []


@pytest.fixture(autouse=True)
def _clients(monkeypatch: pytest.MonkeyPatch) -> None:
    made.clear()
    monkeypatch.setattr(fence_generation, "Fencer", Client)
    monkeypatch.setattr(fence_generation, "_clients", ClientPool(Client))
    monkeypatch.setattr(older_epochs, "HangingProber", Client)
    monkeypatch.setattr(older_epochs, "_clients", ClientPool(Client))


def fence_one() -> None:
    assert fence_generation.fence(["g-c-0"], [AdminAccess("the worker's", WHERE)]).epochs == {1: 1}


def look_for_hanging() -> None:
    older_epochs.end_leftovers(["offsets"], {1: 1}, [AdminAccess("the worker's", WHERE)])


@pytest.mark.parametrize("step", [fence_one, look_for_hanging])
def test_rounds_that_follow_each_other_log_in_once(step: Callable[[], None]) -> None:
    for _ in range(5):
        step()
    assert len(made) == 1


@pytest.mark.parametrize("step", [fence_one, look_for_hanging])
def test_a_kept_client_whose_broker_is_gone_costs_no_round(step: Callable[[], None]) -> None:
    step()
    made[0].away = True
    step()
    assert [each.closed for each in made] == [True, True]


def test_a_new_client_that_fails_is_not_replaced() -> None:
    def make(connection: Connection) -> Client:
        client = Client(connection)
        client.away = True
        return client

    with pytest.raises(Retriable):
        ClientPool(make).call(WHERE, lambda client: client.leftovers([], {}))
    assert len(made) == 1
